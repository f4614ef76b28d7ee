#include "plugins/jobs/generate/measured_drift.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "plugins/jobs/inference/request_inputs.hpp"

namespace kinora::core {

using nlohmann::json;

namespace {

constexpr int64_t kReference = 1;  // seconds

// To the digits that a chart shows: the file of a long video stays small.
void append(json& list, double number) { list.push_back(std::round(1e6 * number) / 1e6); }

}  // namespace

void MeasuredDrift::measure(const at::Tensor& frames) {
  const at::NoGradGuard off;
  const at::Tensor pixels = frames.cpu().contiguous();
  const int64_t rows = pixels.size(1), columns = pixels.size(2);
  const uint8_t* before = before_.defined() ? before_.const_data_ptr<uint8_t>() : nullptr;
  for (int64_t t = 0; t < pixels.size(0); ++t) {
    const uint8_t* frame = pixels.const_data_ptr<uint8_t>() + t * rows * columns * 3;
    video_.add(drift::row_of(frame, before, rows, columns), cuts_.contains(measured_++));
    before = frame;
  }
  before_ = pixels[-1].clone();  // a view would keep the chunk
}

json MeasuredDrift::finish(const at::Tensor& latent, int64_t time) {
  thread_.finish();
  if (video_.seconds() < kLeast) return nullptr;
  json out;
  for (const auto& second : video_.table(kReference))
    for (const auto& column : drift::kColumns) append(out[column.name], second.*column.value);
  if (!has_borders_) out.erase("border_jump");
  if (latent.dim() == 5) add_latent(out, latent, time);
  return out;
}

// Latent frame i > 0 begins with frame 1 + (i - 1) * time.
void MeasuredDrift::add_latent(json& to, const at::Tensor& latent, int64_t time) const {
  const auto first_from = [&](size_t second) {
    const int64_t begin = video_.begin_of(second);
    return begin == 0 ? 0 : std::min(1 + (begin - 1 + time - 1) / time, latent.size(2));
  };
  std::vector<at::Tensor> mean, spread;
  for (size_t k = 0; k < static_cast<size_t>(video_.seconds()); ++k) {
    const int64_t first = first_from(k), count = first_from(k + 1) - first;
    if (count == 0) return;
    const at::Tensor part = latent[0].narrow(1, first, count).to(at::kCPU, at::kDouble).flatten(1);
    mean.push_back(part.mean(1));
    spread.push_back((part - mean.back().unsqueeze(1)).square().mean(1).sqrt());
  }
  for (size_t k = 0; k < mean.size(); ++k) {
    append(to["latent_mean"], (mean[k] - mean[0]).abs().mean().item<double>());
    append(to["latent_spread"], (spread[k] - spread[0]).abs().mean().item<double>());
  }
}

std::unique_ptr<MeasuredDrift> drift_of(inference::Pipeline& pipeline, const Request& request) {
  const double fps = pipeline.fps(request);
  if (fps < 1) return nullptr;
  const int64_t time = pipeline.tokenizer_info().time;
  const auto& rule = pipeline.spec().rule;
  const int64_t chunk = rule.teacher_forcing ? rule.chunk * time : 0,
                first = chunk > 0 ? 1 + (rule.chunks().begin(1) - 1) * time : 0;
  return std::make_unique<MeasuredDrift>(fps, chunk, first, inference::shots_in(pipeline, request).cuts());
}

}  // namespace kinora::core
