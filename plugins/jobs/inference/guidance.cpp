#include "plugins/jobs/inference/guidance.hpp"

#include <cmath>

#include <ATen/ATen.h>

#include "core/torch/network/instances.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

constexpr const char *kX = "guided.x", *kSigma = "guided.sigma";  // no model has inputs with these names

// [B, L, ...] with zeros (false) up to L = length.
at::Tensor lengthened(const at::Tensor& t, int64_t length) {
  if (t.size(1) == length) return t;
  auto shape = t.sizes().vec();
  shape[1] = length - t.size(1);
  return at::cat({t, at::zeros(shape, t.options())}, 1);
}

}  // namespace

Conditions joined(const Conditions& a, const Conditions& b) {
  Conditions out;
  for (const auto& [name, first] : a) {
    const at::Tensor& second = b.at(name);
    const int64_t length = first.dim() > 1 ? std::max(first.size(1), second.size(1)) : 0;
    out[name] = length == 0 ? at::cat({first, second})
                            : at::cat({lengthened(first, length), lengthened(second, length)});
  }
  return out;
}

GuidedModel::GuidedModel(Experts& experts, const ComponentSpec& spec, std::set<std::string> signals,
                         const LossInstance& loss, at::ScalarType stream, uint64_t seed, at::Device device)
    : experts_(experts),
      loss_(loss),
      inputs_(std::move(signals)),
      stream_(stream),
      seed_(seed),
      device_(device) {
  if (experts.boundary() > 0 && loss.mix() != KINORA_MIX_RECTIFIED_FLOW)
    throw Error(KINORA_ERROR_INVALID,
                "boundary applies to losses that blend, such as flow; this loss adds noise");
  for (const auto& input : spec.inputs) inputs_.insert(input.name);
}

GuidedConditions GuidedModel::prepared(Conditions with, Conditions none,
                                       const std::array<Guidance, 2>& guidance) const {
  const auto known = [&](const auto& named) { return takes(named.first); };
  std::erase_if(with, [&](const auto& named) { return !known(named); });
  std::erase_if(none, [&](const auto& named) { return !known(named); });
  for (auto* given : {&with, &none})
    for (auto& [name, tensor] : *given) tensor = tensor.to(device_);
  Conditions both = guidance[0].batched ? joined(with, none) : Conditions{};
  return {std::move(with), std::move(none), std::move(both), guidance};
}

bool GuidedModel::guided_at(const Guidance& g, const at::Tensor& sigma) const {
  double s = sigma.max().item<double>();
  if (loss_.mix() == KINORA_MIX_RECTIFIED_FLOW) s /= std::max(1 - s, 1e-12);
  return g.scale != 1 && s > g.from && s <= g.to;
}

// Compares the timestep that the models read, which may be rounded: a given frame has its own timestep near
// 0.
uint32_t GuidedModel::expert_at(const at::Tensor& x, const at::Tensor& sigma) const {
  if (experts_.boundary() == 0) return 0;
  const auto timestep = [&](const at::Tensor& s) { return loss_.input(x, s).timestep.max().item<double>(); };
  return timestep(sigma) < experts_.boundary() * timestep(at::ones_like(sigma)) ? 1 : 0;
}

at::Tensor GuidedModel::operator()(GuidedConditions& video, const at::Tensor& x, const at::Tensor& sigma) {
  const uint32_t expert = expert_at(x, sigma);
  const Guidance& guidance = video.guidance[expert];
  const double g = guided_at(guidance, sigma) ? guidance.scale : 1;
  ++video.calls;
  // A cache of two samples serves no call of one.
  const bool needs_one = (g == 1 || g == 0) && !(video.place && guidance.batched && guidance.is_guided());
  if (needs_one && g == 1) return estimate(2 * expert, video, video.with, x, sigma);
  if (needs_one) return estimate(2 * expert + 1, video, video.none, x, sigma);
  const auto [with, none] = both(video, expert, x, sigma);
  return none + g * (with - none);
}

std::array<at::Tensor, 2> GuidedModel::both(GuidedConditions& video, uint32_t expert, const at::Tensor& x,
                                            const at::Tensor& sigma) {
  if (branches_.get() && branches_.size() == 2) {
    const uint32_t branch = branches_.rank() == 0 ? 0 : 1;
    const at::Tensor mine =
        estimate(2 * expert + branch, video, branch == 0 ? video.with : video.none, x, sigma);
    ++video.calls;  // calls of the other rank
    const auto two = branches_.gather(mine.to(device_), 0).to(at::kCPU).chunk(2);
    return {two[0], two[1]};
  }
  if (video.guidance[expert].batched) {
    const auto two =
        estimate(2 * expert, video, video.both, at::cat({x, x}), at::cat({sigma, sigma})).chunk(2);
    return {two[0], two[1]};
  }
  const at::Tensor with = estimate(2 * expert, video, video.with, x, sigma);
  ++video.calls;
  return {with, estimate(2 * expert + 1, video, video.none, x, sigma)};
}

// A model with a cache has one expert. Ranks compute a branch each where every level is guided; otherwise both compute
// all, so that they make the same calls.
void GuidedModel::read(GuidedConditions& video, const at::Tensor& x, const at::Tensor& sigma) {
  const Guidance& g = video.guidance[0];
  const bool shared = branches_.get() && branches_.size() == 2;
  if (g.is_guided() && g.batched && !shared) {
    ++video.calls;
    estimate(0, video, video.both, at::cat({x, x}), at::cat({sigma, sigma}), true);
    return;
  }
  const bool is_everywhere = g.from == 0 && std::isinf(g.to);
  const bool is_split = shared && g.is_guided() && is_everywhere;
  const bool asked[] = {g.scale != 0 || !is_everywhere, g.scale != 1};
  for (uint32_t branch : {0U, 1U}) {
    if (!asked[branch]) continue;
    ++video.calls;
    if (!is_split || branches_.rank() == static_cast<int64_t>(branch))
      estimate(branch, video, branch == 0 ? video.with : video.none, x, sigma, true);
  }
}

void GuidedModel::replay_with(const kinora_cuda_api& cuda) {
  replays_ = std::make_unique<Replays>(cuda, device_.index(), [this](uint32_t call, const NamedTensors& in) {
    return evaluate(call, in, pass_of(call));
  });
}

kinora_pass GuidedModel::pass_of(uint32_t call) const {
  kinora_pass pass{};
  pass.struct_size = sizeof pass;
  pass.no_grad = 1;
  pass.branch = call % 2;
  pass.seed = seed_;
  pass.step = step_;
  pass.steps = steps_;
  return pass;
}

// A call with a place reads the cache, which is not among its arguments, so no graph replays it.
at::Tensor GuidedModel::estimate(uint32_t call, const GuidedConditions& video, const Conditions& given,
                                 const at::Tensor& x, const at::Tensor& sigma, bool stores) {
  NamedTensors in = given;
  in[kX] = x.to(device_, stream_);
  in[kSigma] = sigma.to(device_);
  if (!video.place) {
    const auto replay = [this](uint32_t number, const NamedTensors& all) { return replayed(number, all); };
    return video.batched ? (*video.batched)(call, in, replay) : replay(call, in);
  }
  kinora_pass pass = pass_of(call);
  pass.session = video.place->session;
  pass.read_only = stores ? 0 : 1;
  experts_.use(call / 2).chain().set_frames(video.place->frames);
  return evaluate(call, in, pass).to(at::kCPU, at::kDouble);
}

at::Tensor GuidedModel::replayed(uint32_t call, const NamedTensors& in) {
  experts_.use(call / 2);  // before replaying a graph that reads its weights
  const at::Tensor out = replays_ ? (*replays_)(call, in) : evaluate(call, in, pass_of(call));
  return out.to(at::kCPU, at::kDouble);
}

at::Tensor GuidedModel::evaluate(uint32_t call, const NamedTensors& in, const kinora_pass& pass) {
  Model& model = experts_.use(call / 2);
  model.chain().begin(pass);
  NamedTensors all = in;
  const at::Tensor x = all.extract(kX).mapped(), sigma = all.extract(kSigma).mapped();
  const auto scaled = loss_.input(x, sigma);
  all["latent"] = scaled.latent.to(stream_);
  all["timestep"] =
      shares_timestep_ && sigma.dim() == 2 ? loss_.input(x, sigma.amax(1)).timestep : scaled.timestep;
  return loss_.estimate(x, sigma, model.forward(all).at(0));
}

}  // namespace kinora::core
