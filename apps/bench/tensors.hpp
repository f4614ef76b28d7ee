// The benchmarks that hold tensors: `kinora bench train|sample|vae`, `block` and `parallel`. They throw
// kinora::Error.
#pragma once
#include "apps/bench/bench.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora::core {

class BenchRanks;

// Measures networks of this process and of a peer in turns. what: train, sample or vae. The peer is run as
// `COMMAND WHAT THREADS` once per round and prints {NAME: {"seconds", "cpu_seconds"}, ..., "peak_rss": bytes}
// last, where NAME may be "eager" or "compiled" or, for vae, the measured operation. Returns the measurements
// by name.
json bench_networks(Runtime& runtime, const std::string& what, const BenchOptions& request);

// The share of a device's matrix product rate that a large model's block reaches: measures forward and
// backward of model/dit of size 7B with one block (24 heads of 128, text of 512 tokens of 1024 channels),
// in bfloat16 on a GPU and float32 on the CPU, on a video of about request.tokens tokens. Returns the time of
// a step, its operations per second (attention included, a backward counted as two forwards), and their share
// of a large product's rate in the same run, which is the MFU if that product reaches the device's peak. With
// libkinora_cuda also, in turns, the step in fp8, in fp8 with FP8 attention and in nvfp4, with all linear
// layers low, and the forward with and without a graph.
json bench_block(Runtime& runtime, const BenchOptions& request);

// The cost of strategies. In a launch of several ranks (kinora launch) they are compared with each other
// and, on two ranks, with one process of as many threads; in one process, measures what a strategy of size
// 1 adds to a step. request.threads are those of each rank. Every rank calls it; rank 0 returns the
// measurements by name, the others an empty object. All figures are from rounds in which each strategy is
// measured once, in turn.
json bench_parallel(Runtime& runtime, const BenchOptions& request);

// Parts of bench_parallel. Every rank of a launch calls them with bench_parallel's request.

// Measures stdit-hybrid's layouts on one small spatial-temporal model.
json bench_spatial_temporal(Runtime&, const BenchRanks&, const BenchOptions& request);

// Measures balanced-sp's layouts on one small model under teacher forcing, with the encoding of its video,
// and the step by itself. Each rank encodes its own part and the frames that this depends on (balanced), or
// all of the video (naive). By rank: frames that its encoder reads, and peak tensor memory during training.
json bench_teacher_forcing(Runtime&, const BenchRanks&, const BenchOptions& request);

// Measures a step of a small DiT in microbatches under gpipe, 1f1b and interleaved (two stages a rank): its
// time, peak tensor memory by rank, and the share by which it takes longer than a rank works, averaged over
// the ranks. The formula's (P - 1) / (V m), for equal stages and messages that take no time, is given for
// comparison.
json bench_schedules(Runtime&, const BenchRanks&, const BenchOptions& request);

// Measures a step of a small Wan with long text: conditioning computed on every stage, or sent from the first
// one.
json bench_conditioning(Runtime&, const BenchRanks&, const BenchOptions& request);

}  // namespace kinora::core
