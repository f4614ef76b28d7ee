// Cost of one frame: the whole fast path, its plain form, and the full-frame reference, by frame size.
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/cpu/content_score.hpp"
#include "kernels/cpu/content_score_rows.hpp"
#include "kernels/cpu/frame_meter.hpp"

namespace kinora {
namespace {

using content_score_detail::padded_width;
using content_score_detail::plain_rows;
using content_score_detail::PlanarRow;
using content_score_detail::RowKernels;
using content_score_detail::rows_for;
using content_score_detail::yuv_factors;
using content_score_detail::YuvFactors;

using Bytes = std::vector<uint8_t>;

// Several frames, so that the source rows come from memory, as from a decoder, not from the first-level
// cache.
constexpr size_t kFrames = 8;

struct Video {
  explicit Video(FrameSize frame_size)
      : size(frame_size), chroma{(size.width + 1) / 2, (size.height + 1) / 2} {
    std::mt19937_64 random(1);
    const size_t luma_bytes = static_cast<size_t>(size.width) * size.height;
    const size_t chroma_bytes = static_cast<size_t>(chroma.width) * chroma.height;
    for (size_t i = 0; i < kFrames; ++i) {
      Bytes frame(luma_bytes + 2 * chroma_bytes);
      for (uint8_t& byte : frame) byte = static_cast<uint8_t>(random());
      frames.push_back(std::move(frame));
    }
  }
  Yuv420View view(size_t index) const {
    const uint8_t* y = frames[index % kFrames].data();
    const uint8_t* u = y + static_cast<size_t>(size.width) * size.height;
    return {y,           u, u + static_cast<size_t>(chroma.width) * chroma.height, size.width, chroma.width,
            chroma.width};
  }
  FrameSize size;
  FrameSize chroma;
  std::vector<Bytes> frames;
};

FrameSize size_of(const benchmark::State& state) {
  return {static_cast<int>(state.range(0)), static_cast<int>(state.range(1))};
}

void scorer_on_yuv420(benchmark::State& state) {
  const Video video(size_of(state));
  FrameMeter scorer(video.size, content_score_size(video.size), {});
  size_t index = 0;
  for (auto _ : state) benchmark::DoNotOptimize(scorer.push(video.view(index++), kBt709Limited));
  state.SetItemsProcessed(state.iterations());
}

void scorer_on_bgr(benchmark::State& state) {
  const Video video(size_of(state));
  std::vector<Bytes> frames(kFrames, Bytes(3 * static_cast<size_t>(video.size.width) * video.size.height));
  for (size_t i = 0; i < kFrames; ++i) {
    reference::yuv420_to_bgr(video.view(i), video.size, kBt709Limited, frames[i].data(),
                             3 * video.size.width);
  }
  FrameMeter scorer(video.size, content_score_size(video.size), {});
  size_t index = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(scorer.push({frames[index++ % kFrames].data(), 3 * video.size.width}));
  }
  state.SetItemsProcessed(state.iterations());
}

// The rows one by one, with the processor's best kernels or the plain ones.
void rows(benchmark::State& state, bool plain) {
  const Video video(size_of(state));
  const ResizePlan plan(video.size, content_score_size(video.size));
  const RowKernels& kernels = plain ? plain_rows() : rows_for(&plan);
  const YuvFactors factors = yuv_factors(kBt709Limited);
  const size_t width = static_cast<size_t>(padded_width(plan.scaled.width));
  Bytes row(6 * width);
  const PlanarRow bgr{&row[0], &row[width], &row[2 * width]};
  const PlanarRow hsv{&row[3 * width], &row[4 * width], &row[5 * width]};
  size_t index = 0;
  for (auto _ : state) {
    const Yuv420View frame = video.view(index++);
    for (int y = 0; y < plan.scaled.height; ++y) {
      kernels.sample_yuv420(plan, frame, factors, y, bgr);
      if (state.range(2) != 0) kernels.to_hsv(bgr, plan.scaled.width, hsv);
    }
    benchmark::DoNotOptimize(row.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}

void full_frame_reference(benchmark::State& state) {
  const Video video(size_of(state));
  const FrameSize scaled = content_score_size(video.size);
  Bytes full(3 * static_cast<size_t>(video.size.width) * video.size.height);
  std::vector<Bytes> small(2, Bytes(3 * static_cast<size_t>(scaled.width) * scaled.height));
  size_t index = 0;
  for (auto _ : state) {
    reference::yuv420_to_bgr(video.view(index), video.size, kBt709Limited, full.data(), 3 * video.size.width);
    Bytes& current = small[index % 2];
    reference::resize_linear_bgr({full.data(), 3 * video.size.width}, video.size, current.data(),
                                 3 * scaled.width, scaled);
    benchmark::DoNotOptimize(reference::content_difference({small[(index + 1) % 2].data(), 3 * scaled.width},
                                                           {current.data(), 3 * scaled.width}, scaled));
    ++index;
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(scorer_on_yuv420)->Args({1280, 720})->Args({1920, 1080})->Args({640, 360})->Args({3840, 2160});
BENCHMARK(scorer_on_bgr)->Args({1280, 720})->Args({1920, 1080});
BENCHMARK_CAPTURE(rows, sample, false)->Args({1280, 720, 0});
BENCHMARK_CAPTURE(rows, sample_and_hsv, false)->Args({1280, 720, 1});
BENCHMARK_CAPTURE(rows, plain_sample, true)->Args({1280, 720, 0});
BENCHMARK_CAPTURE(rows, plain_sample_and_hsv, true)->Args({1280, 720, 1});
BENCHMARK(full_frame_reference)->Args({1280, 720})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kinora

BENCHMARK_MAIN();
