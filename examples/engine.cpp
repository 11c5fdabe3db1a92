/* An engine's threads share one kernel: each calls it on arrays of its own, of as many rows as it has.
 *
 *     c++ -std=c++17 engine.cpp $(pkg-config --cflags --libs headroom) -pthread -o engine
 *     ./engine $(pkg-config --variable=kernels headroom)/layernorm.hr
 */
#include <headroom.hpp>

#include <cmath>
#include <cstdio>
#include <thread>

constexpr int columns = 768, threads = 4;

/* The largest distance of a row's mean from 0 and of its variance from 1, over all rows of all sizes. */
static double worst(const headroom::kernel &layernorm, int number) {
    double most = 0;
    const std::vector<float> weight(columns, 1), bias(columns, 0);
    for (int rows = 1; rows <= 64; rows += 1 + number) {
        std::vector<float> x(static_cast<std::size_t>(rows) * columns), y(x.size());
        for (std::size_t i = 0; i < x.size(); i++)
            x[i] = static_cast<float>((i * 7919 + static_cast<std::size_t>(number)) % 1009) / 100;
        layernorm.execute({headroom::array(x.data(), {rows, columns}),
                           headroom::array(weight.data(), {columns}), headroom::array(bias.data(), {columns}),
                           nullptr, /* epsilon: its default */
                           headroom::array(y.data(), {rows, columns}), nullptr, nullptr}); /* no statistics */
        for (int row = 0; row < rows; row++) {
            double sum = 0, squares = 0;
            for (int n = 0; n < columns; n++) {
                const double value = static_cast<double>(y[static_cast<std::size_t>(row * columns + n)]);
                sum += value;
                squares += value * value;
            }
            most = std::fmax(most, std::fmax(std::fabs(sum / columns), std::fabs(squares / columns - 1)));
        }
    }
    return most;
}

int main(int argc, char **argv) try {
    const headroom::device cpu("cpu");
    headroom::kernel layernorm = headroom::kernel::from_file(cpu, argc > 1 ? argv[1] : "layernorm.hr");
    double most[threads];
    std::vector<std::thread> team;
    for (int i = 0; i < threads; i++)
        team.emplace_back([&, i] {
            try {
                most[i] = worst(layernorm, i);
            } catch (const headroom::error &failed) { /* of this thread: its sentence is read here */
                std::fprintf(stderr, "%s\n", failed.what());
                most[i] = INFINITY;
            }
        });
    for (auto &one : team)
        one.join();
    bool right = true;
    for (double one : most)
        right = right && one < 1e-3;
    std::printf("%d threads, rows of 1 to 64: %s\n", threads, right ? "normalised" : "WRONG");
    return right ? 0 : 1;
} catch (const headroom::error &failed) {
    std::fprintf(stderr, "%s\n", failed.what());
    return hr_status_exit_code(failed.status());
}
