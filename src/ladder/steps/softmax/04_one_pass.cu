// A block of 512 threads reads a row once and keeps it in registers, up to 64 elements a thread.
// Peak, sum and results come from what is kept; two numbers a warp pass through shared memory.
// The three passes became one: what is read twice more came from the L2 at best, registers cost nothing.

extern "C" __global__ void __launch_bounds__(512) softmax(const __grid_constant__ arguments args) {
    __shared__ float parts[2][16];
    const int64_t m = blockIdx.x;
    kept_row<8, 512> row;
    row.first = threadIdx.x * 8;
    row.end = args.N;
    row.load(args.x + m * args.N);
    const float peak = block_max<512>(row.peak(), parts[0]);
    const float total = block_sum<512>(row.total(peak), parts[1]);
    row.leave(args.y + m * args.N, peak, 1 / total);
}
