/* .npy files: what NumPy writes is mapped, what headroom writes is whole, and a hostile header is a sentence.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "headroom.h"
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static const char *path_of(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/headroom_npy_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    glob_t found;
    char pattern[80];
    snprintf(pattern, sizeof pattern, "%s/*", folder);
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
        globfree(&found);
    }
    return rmdir(folder);
}

static int files_in_folder(void) {
    glob_t found;
    char pattern[80];
    snprintf(pattern, sizeof pattern, "%s/*", folder);
    int count = glob(pattern, 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* A file of version `major` with this dictionary and so many bytes 1, 2, 3, ... behind it. */
static const char *write_npy(int major, const char *dictionary, size_t bytes) {
    const char *path = path_of("in.npy");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    size_t start = major == 1 ? 10 : 12, length = strlen(dictionary), padded = length + 1;
    while ((start + padded) % 64)
        padded++;
    fwrite("\x93NUMPY", 1, 6, file);
    fputc(major, file);
    fputc(0, file);
    for (size_t i = 0; i < start - 8; i++)
        fputc((int)(padded >> 8 * i & 255), file);
    fprintf(file, "%-*s\n", (int)padded - 1, dictionary);
    for (size_t i = 0; i < bytes; i++)
        fputc((int)(i + 1) & 255, file);
    fclose(file);
    return path;
}

static const hr_dtype NONE_WANTED = HR_DTYPE_COUNT;

static void expect_refused(const char *path, hr_dtype wanted, hr_status status, const char *words) {
    hr_npy *npy = NULL;
    assert_int_equal(hr_npy_open(path, wanted, &npy), status);
    assert_null(npy);
    if (!strstr(hr_last_error(), words)) fail_msg("\"%s\" lacks \"%s\"", hr_last_error(), words);
    assert_non_null(strstr(hr_last_error(), path));
}

static void expect_dtype(const char *descr, hr_dtype wanted, hr_dtype dtype) {
    char dictionary[128];
    snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': (3,), }",
             descr);
    hr_npy *npy;
    const char *path = write_npy(1, dictionary, 24);
    if (hr_npy_open(path, wanted, &npy) != HR_OK) fail_msg("%s: %s", descr, hr_last_error());
    assert_int_equal(hr_npy_array(npy)->dtype, dtype);
    assert_memory_equal(hr_npy_array(npy)->data, "\1\2\3", 3);
    hr_npy_destroy(npy);
}

static void dtypes(void **state) {
    (void)state;
    expect_dtype("<f8", NONE_WANTED, HR_F64);
    expect_dtype("<f4", HR_BF16, HR_F32); /* the binding says that they differ */
    expect_dtype("=f2", HR_F16, HR_F16);
    expect_dtype("<i8", HR_I64, HR_I64);
    expect_dtype("<i4", HR_I32, HR_I32);
    expect_dtype("<i2", HR_I16, HR_I16);
    expect_dtype("|i1", HR_I8, HR_I8);
    expect_dtype(">i1", HR_I8, HR_I8); /* one byte has no order */
    expect_dtype("|b1", HR_BOOL, HR_BOOL);
    expect_dtype("|u1", HR_U8, HR_U8);
    expect_dtype("|u1", NONE_WANTED, HR_U8);
    expect_dtype("|u1", HR_F8E4M3, HR_F8E4M3);
    expect_dtype("|V1", HR_F8E5M2, HR_F8E5M2);
    expect_dtype("<f1", HR_F8E5M2, HR_F8E5M2);
    expect_dtype("float8_e4m3fn", HR_F8E4M3, HR_F8E4M3);
    expect_dtype("|V2", HR_BF16, HR_BF16);
    expect_dtype("<V2", HR_BF16, HR_BF16);
    expect_dtype("<u2", HR_BF16, HR_BF16);
    expect_dtype("bfloat16", HR_BF16, HR_BF16);
}

/* Where a dtype variable is bound by the file: what can be one dtype only is that. */
static void dtypes_that_files_say(void **state) {
    (void)state;
    expect_dtype("|V2", NONE_WANTED, HR_BF16);
    expect_dtype("bfloat16", NONE_WANTED, HR_BF16);
    expect_dtype("float8_e4m3fn", NONE_WANTED, HR_F8E4M3);
    expect_dtype("float8_e5m2", NONE_WANTED, HR_F8E5M2);
    expect_dtype("<f2", NONE_WANTED, HR_F16);
    static const char *const silent[] = {"<u2", "|V1", "<f1"};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        char dictionary[128];
        snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': (3,), }",
                 silent[i]);
        expect_refused(write_npy(1, dictionary, 24), NONE_WANTED, HR_BAD_INPUT, "do not say what they are");
    }
    expect_refused(write_npy(1, "{'descr': '|V2', 'fortran_order': False, 'shape': (3,), }", 24), HR_F32,
                   HR_BAD_INPUT, "could carry bf16, but f32 is wanted here");
}

static void orders_and_versions(void **state) {
    (void)state;
    hr_npy *npy;
    for (int major = 1; major <= 3; major++) {
        assert_int_equal(
            hr_npy_open(write_npy(major, "{\"shape\":(2L, 3 ,4),'fortran_order': True,'descr':'<i2'}", 48),
                        HR_I16, &npy),
            HR_OK);
        const hr_array *array = hr_npy_array(npy);
        assert_int_equal(array->rank, 3);
        const int64_t shape[] = {2, 3, 4}, strides[] = {1, 2, 6};
        assert_memory_equal(array->shape, shape, sizeof shape);
        assert_memory_equal(array->strides, strides, sizeof strides);
        assert_int_equal(((int16_t *)array->data)[1], 0x0403);
        hr_npy_destroy(npy);
    }
}

static void scalars_and_empty_arrays(void **state) {
    (void)state;
    hr_npy *npy;
    assert_int_equal(
        hr_npy_open(write_npy(1, "{'descr':'<f8','fortran_order':False,'shape':()}", 8), HR_F64, &npy),
        HR_OK);
    assert_int_equal(hr_npy_array(npy)->rank, 0);
    hr_npy_destroy(npy);
    /* a product that would overflow but for the zero in it */
    const char *empty =
        "{'descr':'<f8','fortran_order':False,'shape':(4611686018427387904, 0, 4611686018427387904)}";
    assert_int_equal(hr_npy_open(write_npy(1, empty, 0), HR_F64, &npy), HR_OK);
    assert_int_equal(hr_npy_array(npy)->shape[1], 0);
    hr_npy_destroy(npy);
}

static void one_element_is_a_scalar(void **state) {
    (void)state;
    static const struct {
        hr_dtype dtype;
        double value;
    } rows[] = {{HR_F64, 0.1}, {HR_F32, -2.5}, {HR_BF16, 3}, {HR_F8E4M3, 0.5}, {HR_I64, -7}, {HR_BOOL, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double data = 0, value = -1;
        hr_npy *npy;
        hr_dtype_store(rows[i].dtype, &data, 0, rows[i].value);
        hr_array array = {.size = sizeof array, .data = &data, .dtype = rows[i].dtype};
        assert_int_equal(hr_npy_save(path_of("scalar.npy"), &array, false), HR_OK);
        assert_int_equal(hr_npy_open(path_of("scalar.npy"), rows[i].dtype, &npy), HR_OK);
        assert_int_equal(hr_npy_scalar(npy, &value), HR_OK);
        assert_true(value == rows[i].value);
        hr_npy_destroy(npy);
    }
    int64_t whole[] = {(1LL << 53) + 1, INT64_MAX};
    for (int i = 0; i < 3; i++) { /* an f64 holds neither number; the last is an array of one axis */
        int64_t one = 1;
        double value;
        hr_npy *npy;
        hr_array array = {
            .size = sizeof array, .data = &whole[i % 2], .dtype = HR_I64, .rank = i == 2, .shape = &one};
        assert_int_equal(hr_npy_save(path_of("scalar.npy"), &array, false), HR_OK);
        assert_int_equal(hr_npy_open(path_of("scalar.npy"), HR_I64, &npy), HR_OK);
        assert_int_equal(hr_npy_scalar(npy, &value), HR_BAD_INPUT);
        assert_non_null(strstr(hr_last_error(), i == 2 ? "1 axis" : "does not hold"));
        hr_npy_destroy(npy);
    }
    unlink(path_of("scalar.npy"));
}

static void writing_leaves_the_file_alone(void **state) {
    (void)state;
    hr_npy *npy;
    const char *path = write_npy(1, "{'descr':'|u1','fortran_order':False,'shape':(4,)}", 4);
    assert_int_equal(hr_npy_open(path, HR_U8, &npy), HR_OK);
    memset(hr_npy_array(npy)->data, 9, 4);
    assert_int_equal(hr_npy_reset(npy), HR_OK);
    assert_memory_equal(hr_npy_array(npy)->data, "\1\2\3\4", 4);
    memset(hr_npy_array(npy)->data, 9, 4);
    hr_npy_destroy(npy);
    assert_int_equal(hr_npy_open(path, HR_U8, &npy), HR_OK);
    assert_memory_equal(hr_npy_array(npy)->data, "\1\2\3\4", 4);
    hr_npy_destroy(npy);
}

static void hostile_headers(void **state) {
    (void)state;
    static const struct {
        const char *dictionary, *words;
    } cases[] = {
        {"{'descr':'<f4','fortran_order':False,'shape':(4294967296, 4294967296)}", "more elements than"},
        {"{'descr':'<f8','fortran_order':False,'shape':(2305843009213693952,)}", "more elements than"},
        {"{'descr':'<f8','fortran_order':False,'shape':(99999999999999999999,)}", "too large"},
        {"{'descr':'<f8','fortran_order':False,'shape':(-3,)}", "negative"},
        {"{'descr':'<f8','fortran_order':False,'shape':(3.5,)}", "does not end"},
        {"{'descr':'<f8','fortran_order':False,'shape':[3]}", "no tuple"},
        {"{'descr':'<f8','fortran_order':False,'shape':(3,", "no tuple of whole numbers"},
        {"{'descr':'<f8','fortran_order':False,'shape':(3,)", "does not end"},
        {"{'descr':'<f8','fortran_order':Maybe,'shape':(3,)}", "neither True nor False"},
        {"{'descr':'<f8','fortran_order':False}", "missing"},
        {"{'descr':'<f8','descr':'<f4','fortran_order':False,'shape':(3,)}", "repeated"},
        {"{'descr':'<f8', 'colour':'red'}", "none of"},
        {"{'descr':'<f8", "does not end"},
        {"{'descr':'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'}", "longer"},
        {"{'descr':[('a','<f4')],'fortran_order':False,'shape':(3,)}", "several fields"},
        {"{'descr':'|O','fortran_order':False,'shape':(3,)}", "Python objects"},
        {"{'descr':'>f4','fortran_order':False,'shape':(3,)}", "astype('<f4')"},
        {"{'descr':'<c8','fortran_order':False,'shape':(3,)}", "'<c8'; possible are <f8"},
        {"{'descr':'','fortran_order':False,'shape':(3,)}", "possible are <f8"},
        {"{'descr':'|V2','fortran_order':False,'shape':(3,)}", "could carry bf16, but f32 is wanted"},
        {"{'descr':'<f4','fortran_order':False,'shape':(3,)}", "needs 12 bytes of elements, 11 are there"},
        {"[1, 2]", "no dictionary"},
        {"", "no dictionary"},
        {"{'descr':'<f4','fortran_order':False,'shape':"
         "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
         "more than 32 axes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(write_npy(1, cases[i].dictionary, 11), HR_F32, HR_BAD_INPUT, cases[i].words);
}

static void write_bytes(const char *path, const void *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(bytes, 1, length, file);
    fclose(file);
}

static void hostile_files(void **state) {
    (void)state;
    const char *path = path_of("in.npy");
    static const struct {
        const char *bytes;
        size_t length;
        const char *words;
    } cases[] = {
        {"", 0, "is empty"},
        {"\x93NUM", 4, "no .npy file"},
        {"PK\3\4aaaaaaaaaaaa", 16, "no .npy file"},
        {"\x93NUMPY\1\0\xff\xff{}", 12, "ends inside its header"},
        {"\x93NUMPY\2\0\xff\xff", 10, "ends inside its header"},
        {"\x93NUMPY\2\0\0\0\0\x40{}", 14, "claims 1073741824 bytes"},
        {"\x93NUMPY\4\0\0\0\0\0", 12, "version 4.0"},
        {"\x93NUMPY\1\7\0\0\0\0", 12, "version 1.7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_bytes(path, cases[i].bytes, cases[i].length);
        expect_refused(path, HR_F32, HR_BAD_INPUT, cases[i].words);
    }
    /* elements that begin on an odd byte */
    const char odd[] = "\x93NUMPY\1\0\x36\0{'descr':'<f2','fortran_order':False,'shape':(1,)}     \n\1\2";
    write_bytes(path, odd, 10 + 0x36 + 2);
    hr_npy *npy;
    assert_int_equal(hr_npy_open(path, HR_F16, &npy), HR_OK); /* 64: even */
    hr_npy_destroy(npy);
    char shifted[sizeof odd];
    memcpy(shifted, odd, sizeof odd);
    shifted[8] = 0x35;
    write_bytes(path, shifted, 10 + 0x36 + 2);
    expect_refused(path, HR_F16, HR_BAD_INPUT, "begin at byte 63");

    expect_refused(path_of("absent.npy"), HR_F32, HR_IO, "No such file");
    expect_refused(folder, HR_F32, HR_IO, "no ordinary file");
    assert_int_equal(mkfifo(path_of("pipe.npy"), 0600), 0);
    expect_refused(path_of("pipe.npy"), HR_F32, HR_IO, "no ordinary file");
    unlink(path_of("pipe.npy"));
}

static void save_and_open(void **state) {
    (void)state;
    hr_npy *npy;
    for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++)
        for (int as_unsigned = 0; as_unsigned < 2; as_unsigned++) {
            unsigned char data[6 * 8];
            for (size_t i = 0; i < sizeof data; i++)
                data[i] = (unsigned char)(i * 7);
            const int64_t shape[] = {2, 3};
            hr_array array = {sizeof array, data, (hr_dtype)dtype, 2, shape, NULL};
            assert_int_equal(hr_npy_save(path_of("out.npy"), &array, as_unsigned), HR_OK);
            assert_int_equal(hr_npy_open(path_of("out.npy"), (hr_dtype)dtype, &npy), HR_OK);
            assert_int_equal(hr_npy_array(npy)->dtype, dtype);
            assert_memory_equal(hr_npy_array(npy)->shape, shape, sizeof shape);
            assert_memory_equal(hr_npy_array(npy)->data, data, 6 * hr_dtype_size((hr_dtype)dtype));
            assert_int_equal((uintptr_t)hr_npy_array(npy)->data % 64, 0);
            hr_npy_destroy(npy);
        }
    assert_int_equal(files_in_folder(), 2); /* out.npy and in.npy of before */
}

static void save_strided_and_empty(void **state) {
    (void)state;
    hr_npy *npy;
    int32_t data[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const int64_t shape[] = {3, 2}, strides[] = {1, 6}, none[] = {3, 0};
    hr_array array = {sizeof array, data + 1, HR_I32, 2, shape, strides};
    assert_int_equal(hr_npy_save(path_of("out.npy"), &array, false), HR_OK);
    assert_int_equal(hr_npy_open(path_of("out.npy"), HR_I32, &npy), HR_OK);
    const int32_t expected[] = {1, 7, 2, 8, 3, 9};
    assert_memory_equal(hr_npy_array(npy)->data, expected, sizeof expected);
    hr_npy_destroy(npy);

    /* more than one buffer, backwards */
    const int64_t long_shape[] = {5001}, backwards[] = {-1};
    int64_t *many = malloc(5001 * sizeof *many);
    for (int64_t i = 0; i < 5001; i++)
        many[5000 - i] = i;
    hr_array reversed = {sizeof reversed, many + 5000, HR_I64, 1, long_shape, backwards};
    assert_int_equal(hr_npy_save(path_of("out.npy"), &reversed, false), HR_OK);
    assert_int_equal(hr_npy_open(path_of("out.npy"), HR_I64, &npy), HR_OK);
    for (int64_t i = 0; i < 5001; i++)
        assert_int_equal(((int64_t *)hr_npy_array(npy)->data)[i], i);
    hr_npy_destroy(npy);
    free(many);

    array = (hr_array){sizeof array, NULL, HR_F32, 2, none, NULL};
    assert_int_equal(hr_npy_save(path_of("out.npy"), &array, false), HR_OK);
    assert_int_equal(hr_npy_open(path_of("out.npy"), HR_F32, &npy), HR_OK);
    assert_int_equal(hr_npy_array(npy)->shape[0], 3);
    assert_int_equal(hr_npy_array(npy)->shape[1], 0);
    hr_npy_destroy(npy);
}

static void no_room_leaves_the_old_file(void **state) {
    (void)state;
    const char *path = path_of("out.npy");
    static char data[1 << 20];
    const int64_t small[] = {4}, large[] = {1 << 20};
    hr_array array = {sizeof array, data, HR_U8, 1, small, NULL};
    assert_int_equal(hr_npy_save(path, &array, false), HR_OK);
    int before = files_in_folder();

    struct rlimit old, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = (struct rlimit){1 << 16, old.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    array.shape = large;
    hr_status status = hr_npy_save(path, &array, false);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);

    assert_int_equal(status, HR_IO);
    assert_non_null(strstr(hr_last_error(), "no room is left"));
    assert_int_equal(files_in_folder(), before);
    hr_npy *npy;
    assert_int_equal(hr_npy_open(path, HR_U8, &npy), HR_OK);
    assert_int_equal(hr_npy_array(npy)->shape[0], 4);
    hr_npy_destroy(npy);
}

static void save_refuses_what_it_cannot(void **state) {
    (void)state;
    const int64_t shape[] = {1};
    hr_array array = {sizeof array, "a", HR_U8, 1, shape, NULL};
    assert_int_equal(hr_npy_save(folder, &array, false), HR_IO);
    assert_non_null(strstr(hr_last_error(), "is a folder"));
    assert_int_equal(hr_npy_save("/nonexistent/out.npy", &array, false), HR_IO);
    assert_non_null(strstr(hr_last_error(), "No such file"));
    assert_int_equal(hr_npy_save("/dev/full", &array, false), HR_IO);
    assert_non_null(strstr(hr_last_error(), "no room is left"));
    assert_int_equal(hr_npy_save("/dev/null", &array, false), HR_OK);
    array.dtype = HR_DTYPE_COUNT;
    assert_int_equal(hr_npy_save(path_of("out.npy"), &array, false), HR_BAD_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes),
        cmocka_unit_test(dtypes_that_files_say),
        cmocka_unit_test(orders_and_versions),
        cmocka_unit_test(scalars_and_empty_arrays),
        cmocka_unit_test(one_element_is_a_scalar),
        cmocka_unit_test(writing_leaves_the_file_alone),
        cmocka_unit_test(hostile_headers),
        cmocka_unit_test(hostile_files),
        cmocka_unit_test(save_and_open),
        cmocka_unit_test(save_strided_and_empty),
        cmocka_unit_test(no_room_leaves_the_old_file),
        cmocka_unit_test(save_refuses_what_it_cannot),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
