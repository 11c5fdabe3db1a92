/* Reports: the terminal's text to the letter, JSON with exactly its contract's keys, pages that escape. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "report/json_value.h"
#include "report/report.h"
#include "report/sheet.h"
#include "support/sample_result.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void words(void **state) {
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } times[] = {{1.5e-9, "1.50 ns"},  {12.34e-6, "12.3 us"},
                 {999.4e-6, "999 us"}, {999.6e-6, "1.00 ms"},
                 {0.014, "14.0 ms"},   {61.7, "61.7 s"},
                 {3600, "3600 s"},     {0, "-"},
                 {(double)NAN, "-"},   {-1, "-"},
                 {INFINITY, "-"},      {9.996, "10.0 s"},
                 {99.96e-3, "100 ms"}, {1e-13, "0.00 ns"}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        assert_string_equal(hr_words_time(times[i].seconds, false).text, times[i].text);
    assert_string_equal(hr_words_time(4.1e-6, true).text, "4.10 µs");
    assert_string_equal(hr_words_rate(38.5e9, "B/s").text, "38.5 GB/s");
    assert_string_equal(hr_words_rate(999.6e9, "FLOP/s").text, "1.00 TFLOP/s");
    assert_string_equal(hr_words_rate(12, "B").text, "12 B");
    assert_string_equal(hr_words_rate(0, "B/s").text, "-");
    assert_string_equal(hr_words_rate(1e30, "B").text, "1000000000000 EB");
    assert_string_equal(hr_words_ratio(294.94, "x").text, "295x");
    assert_string_equal(hr_words_ratio(1.019, "x").text, "1.02x");
    assert_string_equal(hr_words_percent(0.981).text, "98 %");
    assert_string_equal(hr_words_percent(0.0034).text, "0.3 %");
    assert_string_equal(hr_words_capacity(49152).text, "48 KB");
    assert_string_equal(hr_words_capacity(2.5 * 1048576).text, "2.5 MB");
}

static void terminal(void **state) {
    (void)state;
    hr_run_result run = sample_result();
    char *text;
    assert_int_equal(hr_report_run_text(&run, NULL, &text), HR_OK);
    assert_string_equal(
        text,
        "layernorm  kernels/layernorm.hr, T=bf16 M=32768 N=4096, cpu: Intel(R) Xeon(R) Processor, 2 threads\n"
        "  plan      1 stage: row (1 read, 1 write)\n"
        "  tuning    28 choices in 3.14 s: stream, unroll 2, prefetch 1\n"
        "  time      14.2 ms     37.8 GB/s, 66.1 GFLOP/s, 14.1 ms to 14.9 ms in 25 runs\n"
        "  floor     13.9 ms     memory: 537 MB at 38.5 GB/s\n"
        "  headroom  1.02x       ######################## 98 % of the roof\n"
        "  baseline  0.93        of a plain copy, measured alternately (25.8 GB/s; 67 % of the kept roof: "
        "others "
        "use this memory)\n"
        "  fusion    3.40x       the speed of one pass per statement (48.3 ms)\n"
        "  check     right       largest error 0.0031 of 0.0078 allowed, in 4096 elements\n"
        "                        y[31021, 17] = 1.2578125, should be 1.2617043\n");
    free(text);
}

static void terminal_of_a_bad_run(void **state) {
    (void)state;
    hr_run_result run = sample_result();
    char *text;
    run.verified.ok = false;
    run.verified.max_error = INFINITY;
    run.unfused.runs = 0;
    run.baseline.rate = 1.2 * run.roof.copy;
    run.headroom = 2;
    run.roof_fraction = 0.5;
    run.file = "evil\033[2J.hr";
    run.tune.tried = 0;
    run.floor.bound = "exp";
    hr_report_style style = {sizeof style, 150, true, true};
    assert_int_equal(hr_report_run_text(&run, &style, &text), HR_OK);
    assert_non_null(strstr(text, "evil?[2J.hr"));
    assert_non_null(strstr(text, "\033[31mWRONG\033[0m"));
    assert_non_null(strstr(text, "\033[31m2.00x\033[0m"));
    assert_non_null(strstr(text, "\033[31m████████████\033[0m\033[2m·"));
    assert_non_null(strstr(text, "largest error inf of"));
    assert_non_null(strstr(text, "exp: functions at 23.2 G/s"));
    assert_non_null(strstr(text, "the cost model's choice"));
    assert_null(strstr(text, "fusion"));
    assert_non_null(
        strstr(text, "(46.2 GB/s; 120 % of the kept roof: measure it anew by headroom roof --again)"));
    free(text);
    run.verify_done = false;
    run.baseline.rate = 1.09 * run.roof.copy;
    run.roof_was = 0.4 * run.roof.copy;
    assert_int_equal(hr_report_run_text(&run, NULL, &text), HR_OK);
    assert_non_null(strstr(
        text,
        "  roof      its copy raised from 15.4 GB/s to 38.5 GB/s, measured alternately with this kernel\n"));
    assert_non_null(strstr(text, "of a plain copy, measured alternately (42.0 GB/s)\n"));
    assert_null(strstr(text, "cores"));
    free(text);
    run.baseline.special = HR_SPECIAL_EXP;
    run.baseline.special_rate = 0.8 * run.roof.special[HR_SPECIAL_EXP];
    assert_int_equal(hr_report_run_text(&run, NULL, &text), HR_OK);
    assert_non_null(strstr(
        text,
        "  cores     18.6 G/s    exp measured alternately, 80 % of the kept roof: others use these cores\n"));
    free(text);
    assert_int_equal(hr_report_run_json(&run, &text), HR_OK);
    json_t *object = json_loads(text, 0, NULL), *baseline = json_object_get(object, "beside");
    assert_string_equal(json_string_value(json_object_get(baseline, "special")), "exp");
    assert_true(fabs(json_real_value(json_object_get(baseline, "kept_special_part")) - 0.8) < 1e-9);
    json_decref(object);
    free(text);
    run.special_was = 0.5 * run.roof.special[HR_SPECIAL_EXP];
    run.baseline.special_rate *= 1.2; /* near */
    assert_int_equal(hr_report_run_text(&run, NULL, &text), HR_OK);
    assert_null(strstr(text, "cores"));
    assert_non_null(strstr(
        text,
        "  roof      its exp raised from 11.6 G/s to 23.2 G/s, measured alternately with this kernel\n"));
    free(text);
    run.special_was = 0;
    run.baseline = (hr_baseline){0};
    run.roof_was = 0;
    assert_int_equal(hr_report_run_text(&run, NULL, &text), HR_OK);
    assert_non_null(strstr(text, "not checked\n"));
    assert_null(strstr(text, "baseline"));
    assert_null(strstr(text, "\033"));
    free(text);
}

/* "a,b" when the object's keys are exactly a and b, in this order. */
static char *keys_of(json_t *object) {
    static char keys[512];
    const char *key;
    json_t *value;
    keys[0] = 0;
    json_object_foreach(object, key, value) {
        if (keys[0]) strcat(keys, ",");
        strcat(keys, key);
    }
    return keys;
}

static void json(void **state) {
    (void)state;
    hr_run_result run = sample_result();
    char *text;
    assert_int_equal(hr_report_run_json(&run, &text), HR_OK);
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    free(text);
    assert_string_equal(keys_of(object),
                        "kernel,file,device,dtypes,extents,plan,seconds,bytes,flops,floor,headroom,"
                        "roof_fraction,verified,tune,version,threads,variants,unfused,busy,beside");
    assert_string_equal(keys_of(json_object_get(object, "device")), "kind,name");
    assert_string_equal(keys_of(json_object_get(object, "extents")), "M,N");
    assert_string_equal(keys_of(json_object_get(object, "plan")), "summary,stages");
    assert_string_equal(keys_of(json_object_get(object, "seconds")), "median,min,max,runs,samples");
    assert_string_equal(keys_of(json_object_get(object, "flops")), "tensor,vector,special");
    assert_string_equal(keys_of(json_object_get(object, "floor")), "seconds,bound");
    assert_string_equal(keys_of(json_object_get(object, "verified")),
                        "points,max_error,tolerance,ok,compared,relative_error,warning");
    assert_string_equal(keys_of(json_object_get(object, "tune")), "tried,seconds,cached");
    assert_string_equal(keys_of(json_object_get(object, "beside")),
                        "copy,bytes_per_second,kept_roof_part,floor_seconds,roof_fraction");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(object, "extents"), "M")), 32768);
    assert_true(json_real_value(json_object_get(json_object_get(object, "seconds"), "median")) == 14.21e-3);
    assert_true(json_is_true(json_object_get(json_object_get(object, "verified"), "ok")));
    json_decref(object);
}

static void json_of_odd_values(void **state) {
    (void)state;
    hr_run_result run = sample_result();
    hr_stage_info stage = {"generic", "a \"quoted\" name", "why", "mean, rstd", NAN, INFINITY, 0};
    char *text;
    run.stages = &stage;
    run.file = "caf\xe9/\x01\".hr";
    run.headroom = INFINITY;
    run.verified.max_error = NAN;
    assert_int_equal(hr_report_run_json(&run, &text), HR_OK);
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    free(text);
    assert_string_equal(json_string_value(json_object_get(object, "file")), "caf\xef\xbf\xbd/\x01\".hr");
    assert_true(json_is_null(json_object_get(object, "headroom")));
    assert_true(json_is_null(json_object_get(json_object_get(object, "verified"), "max_error")));
    json_t *first = json_array_get(json_object_get(json_object_get(object, "plan"), "stages"), 0);
    assert_string_equal(keys_of(first), "shape,name,why,materialised,bytes,flops,floor_seconds");
    assert_int_equal(json_array_size(json_object_get(first, "materialised")), 2);
    assert_string_equal(json_string_value(json_array_get(json_object_get(first, "materialised"), 1)), "rstd");
    assert_true(json_is_null(json_object_get(first, "bytes")));
    json_decref(object);
    run.verify_done = false;
    run.baseline.copy = 0; /* bound by arithmetic: no copy was needed */
    assert_int_equal(hr_report_run_json(&run, &text), HR_OK);
    object = json_loads(text, 0, NULL);
    assert_true(json_is_null(json_object_get(object, "verified")));
    assert_string_equal(keys_of(json_object_get(object, "beside")), "floor_seconds,roof_fraction");
    json_decref(object);
    free(text);
    run.baseline = (hr_baseline){0};
    assert_int_equal(hr_report_run_json(&run, &text), HR_OK);
    object = json_loads(text, 0, NULL);
    assert_null(json_object_get(object, "beside"));
    json_decref(object);
    free(text);
}

static void escapes(void **state) {
    (void)state;
    hr_text text = {0};
    hr_html_escape(&text, "<a href='x'>\"&\xff\xc3\xa9\xed\xa0\x80");
    assert_string_equal(hr_text_data(&text), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&#xFFFD;\xc3\xa9"
                                             "&#xFFFD;&#xFFFD;&#xFFFD;");
    hr_text_clear(&text);
    hr_html_source(&text, "#define A 1\nint x = 0x1F; /* <b> */ char c = '\\''; // </pre>\n\"open");
    assert_string_equal(
        hr_text_data(&text),
        "<pre class='source'><code><span class='p'>#define A 1</span>\n<span class='k'>int</span> x = "
        "<span class='n'>0x1F</span>; <span class='c'>/* &lt;b&gt; */</span> <span class='k'>char"
        "</span> c = <span class='s'>&#39;\\&#39;&#39;</span>; <span class='c'>// &lt;/pre&gt;</span>\n"
        "<span class='s'>&quot;open</span></code></pre>\n");
    hr_text_clear(&text);
    /* what drives a terminal or turns the order of signs: ESC, CSI in 8 bits, an override, a break of lines,
     * half a sign; letters of any script stay */
    hr_sheet paper = hr_sheet_begin(NULL);
    hr_sheet_put(&paper, HR_INK_PLAIN,
                 "a\033b\xc2\x9b"
                 "31mc\xe2\x80\xae"
                 "d\xe2\x80\xa8"
                 "e\xc3\xa9\xe4\xb8\xad\xe4\xb8");
    assert_string_equal(hr_text_data(&paper.text), "a?b?31mc?d?e\xc3\xa9\xe4\xb8\xad??");
    hr_text_clear(&paper.text);
}

static void page(void **state) {
    (void)state;
    hr_run_result run = sample_result();
    char *text;
    static const hr_variant variants[] = {{"<script>alert(1)</script>", 1e-3, true}};
    hr_stage_info stage = {"<i>", "<i>", "<i>", "<i>", 1, 1, 1};
    run.kernel = run.file = run.device_name = run.plan_summary = "<script>alert(1)</script>";
    run.source = "</code></pre><script>alert(1)</script>";
    run.stages = &stage;
    run.variants = variants;
    run.variant_count = 1;
    strcpy(run.verified.where, "<img src=x onerror=y>");
    assert_int_equal(hr_report_run_html(&run, &text), HR_OK);
    static const char *const never[] = {"<script", "<img",   "<i>",   "http:", "https:", "@import",
                                        "url(",    "src=x'", "<link", "nan",   "-inf",   ">inf"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (strstr(text, never[i])) fail_msg("the page holds %s", never[i]);
    assert_non_null(strstr(text, "&lt;script&gt;"));
    assert_non_null(strstr(text, "prefers-color-scheme:dark"));
    assert_non_null(strstr(text, "class='kernel'"));
    free(text);
}

/* Nothing measured, nothing to do: pages and texts without a single division by zero. */
static void nothing(void **state) {
    (void)state;
    hr_run_result run = {.kernel = "none",
                         .file = "none.hr",
                         .device_kind = "cpu",
                         .device_name = "none",
                         .plan_summary = "",
                         .floor = {.bound = "launch"}};
    char *text;
    assert_int_equal(hr_report_run_html(&run, &text), HR_OK);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    assert_null(strstr(text, "<svg class='plot'"));
    free(text);
    assert_int_equal(hr_report_run_text(&run, NULL, &text), HR_OK);
    assert_null(strstr(text, "nan"));
    free(text);
}

static void bench(void **state) {
    (void)state;
    hr_run_result run = sample_result();
    hr_bench_row rows[] = {
        {.dtype = "bf16", .result = &run, .passes = 1},
        {.dtype = "f32", .kernel = "softmax", .error = "a sentence, with \"quotes\"", .passes = 1}};
    hr_bench table = {sizeof table, "headroom bench", "cpu", "a processor", run.roof, 1.7e9, 2, rows};
    char *text;
    assert_int_equal(hr_report_bench_csv(&table, &text), HR_OK);
    assert_string_equal(
        text, "# headroom 0.1.0, 2023-11-14T22:13:20Z, cpu: a processor, 2 threads, copy 3.85e+10 B/s\n"
              "# headroom bench\n"
              "kernel,dtype,extents,seconds,min,max,bytes_per_second,copy_roof_fraction,floor_seconds,bound,"
              "headroom,"
              "fusion_gain,max_error,check,error,beside_copy,beside_roof_fraction,dtypes\n"
              "layernorm,bf16,M=32768 "
              "N=4096,0.01421,0.0141,0.01493,3.77824e+10,0.9814,0.013945,memory,1.0190,3.3990,"
              "0.0031,right,,0.9320,0.9370,T=bf16\n"
              "softmax,f32,,,,,,,,,,,,,\"a sentence, with \"\"quotes\"\"\",,,\n");
    free(text);
    assert_int_equal(hr_report_bench_json(&table, &text), HR_OK);
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    assert_string_equal(keys_of(object), "version,command,date,device,roof,kernels");
    assert_int_equal(json_array_size(json_object_get(object, "kernels")), 2);
    json_decref(object);
    free(text);
    assert_int_equal(hr_report_bench_line(&rows[0], &run.roof, NULL, &text), HR_OK);
    assert_string_equal(
        text, "layernorm                  bf16  T=bf16 M=32768 N=4096              14.2 ms     37.8 GB/s   "
              "98 %  memory     1.02x   94 %   3.40x  right 3.1e-03\n");
    free(text);
    static const struct {
        int width;
        const char *heading, *line;
    } narrow[] = {
        {111,
         "kernel                     dtype      time          rate   copy  bound   headroom    now  fusion  "
         "check\n",
         "layernorm                  bf16    14.2 ms     37.8 GB/s   98 %  memory     1.02x   94 %   3.40x  "
         "right "
         "3.1e-03\n"},
        {80, "kernel                          time  bound   headroom    now  fusion  check\n",
         "layernorm                    14.2 ms  memory     1.02x   94 %   3.40x  right\n"},
        {60, "kernel                          time headroom    now  check\n",
         "layernorm                    14.2 ms    1.02x   94 %  right\n"},
    };
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        hr_report_style style = {sizeof style, narrow[i].width, false, false};
        assert_int_equal(hr_report_bench_line(NULL, &run.roof, &style, &text), HR_OK);
        assert_string_equal(text, narrow[i].heading);
        free(text);
        assert_int_equal(hr_report_bench_line(&rows[0], &run.roof, &style, &text), HR_OK);
        assert_string_equal(text, narrow[i].line);
        free(text);
    }
    rows[0].passes = 3;
    rows[0].now_least = 0.74;
    rows[0].now_most = 0.98;
    assert_int_equal(hr_report_bench_line(&rows[0], &run.roof, NULL, &text), HR_OK);
    assert_non_null(strstr(text, "  94 %   3.40x  right 3.1e-03  now 74 % to 98 % in 3 passes\n"));
    free(text);
    assert_int_equal(hr_report_bench_json(&table, &text), HR_OK);
    object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    json_t *row = json_array_get(json_object_get(object, "kernels"), 0),
           *passes = json_object_get(row, "passes");
    assert_string_equal(keys_of(passes), "count,least,most");
    assert_int_equal(json_integer_value(json_object_get(passes, "count")), 3);
    assert_true(json_real_value(json_object_get(passes, "least")) == 0.74);
    json_decref(object);
    free(text);
}

/* No line is longer than the terminal, and what goes on begins below what it belongs to. */
static void narrow_terminal(void **state) {
    (void)state;
    hr_run_result run = sample_result();
    char *text;
    for (int width = 60; width <= 130; width += 10) {
        hr_report_style style = {sizeof style, width, true, true};
        assert_int_equal(hr_report_run_text(&run, &style, &text), HR_OK);
        int column = 0;
        for (const char *at = text; *at; at++) {
            while (*at == '\033')
                at += strcspn(at, "m") + 1;
            column = *at == '\n' ? 0 : column + (((unsigned char)*at & 0xc0) != 0x80);
            if (column > width) fail_msg("wider than %d:\n%s", width, text);
        }
        free(text);
    }
    hr_report_style style = {sizeof style, 60, false, false};
    assert_int_equal(hr_report_run_text(&run, &style, &text), HR_OK);
    assert_non_null(strstr(text, "  time      14.2 ms     37.8 GB/s, 66.1 GFLOP/s,\n"
                                 "                        14.1 ms to 14.9 ms in 25 runs\n"));
    assert_non_null(strstr(text, "  headroom  1.02x       ################## 98 % of the roof\n"));
    free(text);
}

/* Neither bytes nor operations: an extent is 0. A kernel that passes the roof of its arithmetic. */
static void odd_floors(void **state) {
    (void)state;
    hr_run_result run = sample_result();
    char *text;
    run.floor.bytes = run.floor.tensor_flops = run.floor.vector_flops = 0;
    run.floor.bound = "exp";
    run.roof_fraction = 1.9;
    assert_int_equal(hr_report_run_text(&run, NULL, &text), HR_OK);
    assert_non_null(strstr(text, "  time      14.2 ms     14.1 ms to 14.9 ms in 25 runs\n"));
    assert_non_null(
        strstr(text, " 190 % of the roof; it was measured in a slow moment: headroom roof --again\n"));
    free(text);
    run.unfused_part = 1.0 / 16;
    assert_int_equal(hr_report_run_text(&run, NULL, &text), HR_OK);
    assert_non_null(strstr(text, "one pass per statement (48.3 ms, from 1/16 of the work)\n"));
    free(text);
    run.floor.bound = "memory"; /* which caches can pass */
    assert_int_equal(hr_report_run_text(&run, NULL, &text), HR_OK);
    assert_null(strstr(text, "slow moment"));
    free(text);
    run.floor.bound = "tanh"; /* which gelu does without */
    assert_int_equal(hr_report_run_text(&run, NULL, &text), HR_OK);
    assert_null(strstr(text, "slow moment"));
    free(text);
}

/* Rows with given times: what is drawn follows from them. */
static void ladder(void **state) {
    (void)state;
    const hr_run_result run = sample_result();
    const hr_ladder_row rows[] = {
        {.number = 1,
         .name = "naive",
         .seconds = {8e-3, 7e-3, 9e-3, 5},
         .headroom = 8,
         .verified = {.ok = true}},
        {.number = 2,
         .name = "coalesced",
         .seconds = {2e-3, 2e-3, 2e-3, 5},
         .gain = 4,
         .headroom = 2,
         .scratch = 3 << 20,
         .verified = {.ok = false, .where = "c[0] = <1>, should be 2"}},
        {.number = 11, .name = "wgmma", .fault = "needs sm_90a"},
    };
    const hr_ladder_result result = {
        .ladder = {"gemm", "matmul", "a product", "", 13},
        .device_kind = "cuda",
        .device_name = "Some <GPU>",
        .sizes = "M=64",
        .floor = {.seconds = 1e-3, .bound = "tensor", .tensor_flops = 4e9},
        .roof = run.roof,
        .row_count = 3,
        .rows = rows,
    };
    char *text;
    assert_int_equal(hr_report_ladder_text(&result, NULL, &text), HR_OK);
    assert_non_null(strstr(text, "   1  naive                    8.00 ms   500 GFLOP/s              8.00x "
                                 "###..................... right\n"));
    assert_non_null(strstr(text, "   2  coalesced                2.00 ms   2.00 TFLOP/s    4.00x    2.00x "
                                 "############............ WRONG, 3 MB of intermediate results\n"
                                 "      c[0] = <1>, should be 2\n"));
    assert_non_null(strstr(text, "  11  wgmma                    needs sm_90a\n"));
    free(text);
    assert_int_equal(hr_report_ladder_json(&result, &text), HR_OK);
    json_t *object = json_loads(text, 0, NULL), *steps = json_object_get(object, "steps");
    assert_int_equal(json_array_size(steps), 3);
    assert_true(json_is_null(json_object_get(json_array_get(steps, 0), "gain")));
    assert_true(json_real_value(json_object_get(json_array_get(steps, 1), "roof_fraction")) == 0.5);
    assert_true(json_is_false(json_object_get(json_array_get(steps, 1), "ok")));
    assert_string_equal(json_string_value(json_object_get(json_array_get(steps, 2), "fault")),
                        "needs sm_90a");
    json_decref(object);
    free(text);
    assert_int_equal(hr_report_ladder_html(&result, &text), HR_OK);
    assert_non_null(strstr(text, "Some &lt;GPU&gt;"));
    assert_non_null(strstr(text, "50 %, 4.00x"));
    assert_null(strstr(text, "<GPU>"));
    free(text);
}

static void sweep(void **state) {
    (void)state;
    hr_run_result runs[3];
    const double seconds[] = {1e-3, 1e-3, 2e-3}, flops[] = {1e9, 3.8e9, 8e9};
    hr_extent_point points[4];
    for (int i = 0; i < 3; i++) {
        runs[i] = sample_result();
        runs[i].seconds.median = seconds[i];
        runs[i].floor.tensor_flops = flops[i];
        runs[i].floor.vector_flops = runs[i].floor.special_ops = 0;
        points[i] = (hr_extent_point){.value = 1 << (4 * i), .result = &runs[i]};
    }
    points[3] = (hr_extent_point){.value = 4096, .error = "no memory for <x>"};
    const hr_extent_sweep all = {
        .size = sizeof all, .command = "sweep", .extent = "M", .count = 4, .points = points};
    char *text;
    assert_int_equal(hr_report_sweep_text(&all, NULL, &text), HR_OK);
    assert_null(strstr(text, "  busy"));
    free(text);
    runs[0].busy = 0.15;
    runs[1].busy = 0.4;
    assert_int_equal(hr_report_sweep_text(&all, NULL, &text), HR_OK);
    assert_non_null(strstr(text, "  busy      measured while other programs ran: up to 40 % (M=16)\n"));
    assert_null(strstr(text, "M=32768")); /* of the title: the extent varies */
    assert_non_null(strstr(text, "          16  1.00 ms   3.80 TFLOP/s "));
    assert_non_null(strstr(text, "#############################. < knee\n"));
    assert_non_null(strstr(text, "        4096  no memory for <x>\n"));
    assert_non_null(strstr(text, "M=16: the smallest whose rate is within 10 % of the best, 4.00 TFLOP/s\n"));
    free(text);
    assert_int_equal(hr_report_sweep_json(&all, &text), HR_OK);
    json_t *object = json_loads(text, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(object, "knee")), 16);
    assert_string_equal(json_string_value(json_object_get(object, "rate_unit")), "FLOP/s");
    const json_t *second = json_array_get(json_object_get(object, "points"), 1);
    assert_true(json_real_value(json_object_get(second, "busy")) == 0.4);
    json_decref(object);
    free(text);
    assert_int_equal(hr_report_sweep_html(&all, &text), HR_OK);
    assert_non_null(strstr(text, ">knee</text>"));
    assert_non_null(strstr(text, "no memory for &lt;x&gt;"));
    assert_non_null(strstr(text, "measured while other programs ran: up to 40 % (M=16)"));
    free(text);
    const hr_extent_sweep failed = {.size = sizeof failed, .extent = "M", .count = 1, .points = points + 3};
    assert_int_equal(hr_report_sweep_text(&failed, NULL, &text), HR_OK);
    assert_null(strstr(text, "knee"));
    free(text);
    assert_int_equal(hr_report_sweep_html(&failed, &text), HR_OK);
    assert_null(strstr(text, "<svg"));
    free(text);
}

/* What would drive a terminal stands in JSON as its number; it is the same string. */
static void json_of_controls(void **state) {
    (void)state;
    static const char name[] = "a\xc2\x9b"
                               "b\xe2\x80\xae"
                               "c\x7f\xf3\xa0\x80\x81\xc3\xa9\n";
    const long before = hr_memory_wants();
    json_t *object = json_object(), *again;
    char *text;
    hr_value_set_text(object, "name", name);
    assert_int_equal(hr_value_give_line(object, before, &text), HR_OK);
    assert_string_equal(text, "{\"name\": \"a\\u009bb\\u202ec\\u007f\\udb40\\udc01\xc3\xa9\\n\"}\n");
    again = json_loads(text, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(again, "name")), name);
    json_decref(again);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(terminal),
        cmocka_unit_test(terminal_of_a_bad_run),
        cmocka_unit_test(json),
        cmocka_unit_test(json_of_odd_values),
        cmocka_unit_test(escapes),
        cmocka_unit_test(page),
        cmocka_unit_test(nothing),
        cmocka_unit_test(bench),
        cmocka_unit_test(narrow_terminal),
        cmocka_unit_test(odd_floors),
        cmocka_unit_test(ladder),
        cmocka_unit_test(sweep),
        cmocka_unit_test(json_of_controls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
