#include "plugins/jobs/inference/next_token.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/rules.hpp"

namespace kinora::core {
namespace {

// One forward over the given codes computes only the last logits, [1, kPiece, V].
constexpr int64_t kPiece = 256;

}  // namespace

int64_t draw_token(const at::Tensor& logits, const TokenSampling& how, double u) {
  const auto [sorted, codes] =
      at::sort(logits.to(at::kCPU, at::kDouble), /*stable=*/true, /*dim=*/0, /*descending=*/true);
  if (const double best = sorted[0].item<double>(); !std::isfinite(best))
    raise(KINORA_ERROR_FAILED, "the model's greatest logit is {}; its weights or its precision are at fault",
          best);
  if (how.temperature == 0) return codes[0].item<int64_t>();
  const int64_t all = how.top_k > 0 ? std::min(how.top_k, sorted.size(0)) : sorted.size(0);
  const at::Tensor cumulative =
      at::softmax((sorted.narrow(0, 0, all) - sorted[0]) / how.temperature, 0).cumsum(0);
  // A code is kept while the codes before it do not reach top_p.
  const int64_t kept = 1 + (cumulative.narrow(0, 0, all - 1) < how.top_p).sum().item<int64_t>();
  const at::Tensor mine = cumulative.narrow(0, 0, kept);
  const int64_t passed = (mine <= u * mine[kept - 1]).sum().item<int64_t>();
  return codes[std::min(passed, kept - 1)].item<int64_t>();
}

bool NextToken::is_for(const ComponentSpec& model) {
  return takes_input(model, "codes") && !takes_input(model, "latent");
}

void NextToken::require_alone(const std::string& model, int64_t ranks) {
  if (ranks > 1)
    raise(
        KINORA_ERROR_UNSUPPORTED,
        "parallel: {} draws codes one after the other on one rank; give ddp, which makes different videos on "
        "other ranks",
        model);
}

NextToken::NextToken(Model& model, const ComponentSpec& spec, CacheInstance& cache, uint64_t session,
                     std::array<int64_t, 3> grid, int64_t vocabulary, const TokenSampling& sampling,
                     const Guidance& guidance, uint64_t seed_of_model)
    : model_(model),
      cache_(cache),
      session_(session),
      grid_(grid),
      vocabulary_(vocabulary),
      sampling_(sampling),
      guidance_(guidance),
      seed_of_model_(seed_of_model) {
  require_inputs(spec);
}

void NextToken::require_inputs(const ComponentSpec& spec) {
  for (const char* name : {"position", "grid"})
    if (!takes_input(spec, name))
      raise(KINORA_ERROR_UNSUPPORTED,
            "{} has no input '{}'; decoding token by token needs codes, grid and position, as model/ar has",
            spec.id, name);
}

void NextToken::begin(const Conditions& with, const Conditions& none, const at::Tensor& given, uint64_t seed,
                      int64_t number) {
  const int64_t N = tokens();
  given_ = given.defined() ? given.numel() : 0;
  if (given_ >= N)
    raise(KINORA_ERROR_INVALID, "{} latent frames are given of {} to generate; make a longer video",
          given.size(1), grid_[0]);
  with_ = with;
  none_ = none;
  both_ =
      guidance_.batched && guidance_.scale != 1 && guidance_.scale != 0 ? joined(with, none) : Conditions{};
  calls_ = position_ = 0;
  cache_.reset(session_);  // of the last video, which may have failed
  cache_.pin(session_, 0, given_ + 1);
  codes_ = at::zeros({1, N}, at::kLong);
  if (given_ > 0) codes_.narrow(1, 0, given_).copy_(given.flatten(1));
  uniform_ = sample_uniform({1, N}, seed, number, "generate.codes");
}

int64_t NextToken::step() {
  const int64_t count = std::clamp<int64_t>(given_ + 1 - position_, 1, kPiece);
  const at::Tensor of_last = logits(codes_, position_, count);
  const int64_t at = position_ + count - 1;
  if (at >= given_) codes_[0][at] = draw_token(of_last, sampling_, uniform_[0][at].item<double>());
  return position_ = at + 1;
}

at::Tensor NextToken::logits(const at::Tensor& codes, int64_t position, int64_t count) {
  Frames frames = model_.chain().frames();
  frames.start = position;
  model_.chain().set_frames(frames);
  const at::Tensor before = codes.narrow(1, std::max<int64_t>(position - 1, 0), count).contiguous();
  const double g = guidance_.scale;
  const auto last = [&](const Conditions& conditions, int64_t samples, uint32_t branch) {
    return forward(conditions, before, position, samples, branch).select(1, count - 1).to(at::kDouble);
  };
  at::Tensor out;
  if (g == 1 || g == 0) {
    out = last(g == 1 ? with_ : none_, 1, 0)[0];
  } else if (guidance_.batched) {
    const at::Tensor two = last(both_, 2, 0);
    out = two[1] + g * (two[0] - two[1]);
  } else {
    const at::Tensor with = last(with_, 1, 0)[0], none = last(none_, 1, 1)[0];
    out = none + g * (with - none);
  }
  return out.narrow(0, 0, std::min(vocabulary_, out.size(0)));
}

at::Tensor NextToken::forward(const Conditions& conditions, const at::Tensor& codes, int64_t position,
                              int64_t samples, uint32_t branch) {
  ++calls_;
  kinora_pass pass{};
  pass.struct_size = sizeof pass;
  pass.no_grad = 1;
  pass.branch = branch;
  pass.session = session_;
  pass.seed = seed_of_model_;
  model_.chain().begin(pass);
  NamedTensors in = conditions;
  in["codes"] = codes.expand({samples, -1});
  in["grid"] = at::tensor({grid_[0], grid_[1], grid_[2]}, at::kLong);
  in["position"] = at::full({1}, position, at::kLong);
  return model_.forward(in).at(0);
}

}  // namespace kinora::core
