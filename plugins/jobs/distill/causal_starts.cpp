#include "plugins/jobs/distill/causal_starts.hpp"

#include <filesystem>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "core/torch/tensors/noise.hpp"
#include "core/torch/weights/safe_tensors.hpp"

namespace kinora::core {
namespace {

// A whole number below n for each chunk, drawn for the samples from `first` on: [count, T], the same in all frames of a
// chunk.
at::Tensor drawn_by_chunk(int64_t n, int64_t count, int64_t T, const Chunks& chunks, uint64_t seed,
                          int64_t first) {
  std::vector<int64_t> of_frames;
  for (int64_t f = 0; f < T; ++f) of_frames.push_back(chunks.of(f));
  const at::Tensor u = sample_uniform({count, of_frames.back() + 1}, seed, first, "distill.step");
  return (u * static_cast<double>(n)).to(at::kLong).index_select(1, at::tensor(of_frames, at::kLong));
}

// The mean over a sample's numbers, [B].
at::Tensor squared_error(const at::Tensor& estimate, const at::Tensor& target) {
  return (estimate - target).square().mean({1, 2, 3, 4});
}

}  // namespace

CausalOde::CausalOde(JobContext& context, const DistillOptions& o)
    : DistillTask(context, o),
      rollouts_of_teacher_(forcing_of(*teacher_)),
      euler_steps_((o.teacher_steps + rollouts_of_teacher_.steps() - 1) / rollouts_of_teacher_.steps()) {}

at::Tensor CausalOde::trajectory(int64_t p, const Batch& in) {
  const auto file = context_.folder() / "pairs" / fmt::format("{:06}.safetensors", p);
  const bool is_stored = std::filesystem::exists(file);
  if (!parallel_.any(!is_stored)) return read_tensors(file).at("x");
  const auto shape = in.with.at("latent").sizes().vec();
  const at::Tensor made =
      rollouts_of_teacher_
          .trajectory(in.with, in.none, options_.guidance, euler_steps_, shape, p, "distill.pair")
          .squeeze(1)
          .to(parallel_.parameter_dtype());
  if (!is_stored && parallel_.of_sample().rank == 0) {
    std::filesystem::create_directories(file.parent_path());
    write_tensors(file, {{"x", made}});
  }
  return made;
}

MicroLoss CausalOde::micro_loss(size_t, int64_t first, int64_t count) {
  const auto levels = at::tensor(rollouts_of_teacher_.levels(), at::kDouble);
  std::vector<LatentData::Item> items;
  std::vector<at::Tensor> ends, noisy, at_levels;
  for (int64_t n = first; n < first + count; ++n) {
    const int64_t p = n % options_.pairs;
    items.push_back(data_.stream->drawn(p));
    const at::Tensor x = trajectory(p, batch({items.back()}));
    const int64_t T = x.size(2);
    const at::Tensor step = drawn_by_chunk(levels.numel(), 1, T, train_.chunks(), seed_, n)[0];
    std::vector<at::Tensor> frames;
    for (int64_t f = 0; f < T; ++f) frames.push_back(x[step[f].item<int64_t>()].narrow(1, f, 1));
    noisy.push_back(at::cat(frames, 1));
    at_levels.push_back(levels.index_select(0, step));
    ends.push_back(x[-1].clone());
  }
  Batch in = batch(items);
  const at::Tensor end = on_device(at::stack(ends));
  in.set_latent(end);
  const at::Tensor x = student_estimate(in.with, at::stack(noisy), at::stack(at_levels));
  return {squared_error(x, end).sum() / static_cast<double>(options_.batch), {}, {}};
}

at::Tensor CausalConsistency::average_estimate(const NamedTensors& batch, const at::Tensor& noisy,
                                               const at::Tensor& levels) {
  const Averaged average(trained_->averages(), student_->chain().leaves());
  return score(*student_, objective_, batch, noisy, levels);
}

MicroLoss CausalConsistency::micro_loss(size_t, int64_t first, int64_t count) {
  const Batch in = drawn(first, count);
  const at::Tensor& x = in.with.at("latent");
  const double steps = static_cast<double>(options_.teacher_steps);
  const at::Tensor step =
      drawn_by_chunk(options_.teacher_steps, count, x.size(2), train_.chunks(), seed_, first).to(at::kDouble);
  const auto level = [&](const at::Tensor& i) {
    const at::Tensor u = i / steps;
    return (options_.shift * u / (1 + (options_.shift - 1) * u)).to(device_);
  };
  const at::Tensor from = level(step + 1), to = level(step), share = scale_for(to / from, x);
  const at::Tensor noisy = flow_.noisy(x, sample_noise(x, seed_, first, "distill.noise"), from),
                   next = share * noisy + (1 - share) * guided_score(in, noisy, from),
                   target = average_estimate(in.with, on_device(next), to),
                   estimate = student_estimate(in.with, noisy, from);
  return {squared_error(estimate, target).sum() / static_cast<double>(options_.batch), {}, {}};
}

}  // namespace kinora::core
