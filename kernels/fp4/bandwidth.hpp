// Compares the rate of a kernel whose time memory should set with that of memcpy, for benchmarks.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

namespace kinora::fp4 {

// bytes: read and written by `run`. Each iteration times `run` and a memcpy that reads half as many bytes and
// writes them; the counters are GB/s of the shortest run, and its share of memcpy's.
template <class F>
void report_bandwidth(benchmark::State& state, double bytes, F run) {
  const auto seconds_of = [](auto&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const auto half = static_cast<size_t>(bytes / 2);
  const std::vector<char> from(half, 1);
  std::vector<char> to(half, 2);
  double least = 1e30, copy = 1e30;
  for (auto _ : state) {
    const double once = seconds_of(run);
    state.SetIterationTime(once);
    least = std::min(least, once);
    copy = std::min(copy, seconds_of([&] { std::memcpy(to.data(), from.data(), half); }));
    benchmark::ClobberMemory();
  }
  state.counters["GB/s"] = bytes / least / 1e9;
  state.counters["memcpy_GB/s"] = bytes / copy / 1e9;
  state.counters["percent_of_memcpy"] = 100 * copy / least;
}

}  // namespace kinora::fp4
