#include "core/torch/network/meter_link.hpp"

#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/network/model.hpp"
#include "core/torch/network/tokenizer.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

double sum(const std::map<std::string, double>& of) {
  return std::accumulate(of.begin(), of.end(), 0.0, [](double s, const auto& one) { return s + one.second; });
}

at::Tensor on_meta(const at::Tensor& t) {
  return at::empty(t.sizes(), t.options().device(at::kMeta).requires_grad(false));
}

}  // namespace

double Flops::linear_total() const { return sum(linear); }
double Flops::attention_total() const { return sum(attention); }

kinora_param MeterLink::parameter(const kinora_param_spec& s) {
  const auto id = next.parameter(s);
  if (s.ndim == 2) weights_[id] = {s.name, s.shape[0], s.shape[1], s.role == KINORA_ROLE_COLUMN};
  return id;
}

int64_t MeterLink::tokens(kinora_seq seq, int64_t otherwise) const {
  const auto it = sequences_.find(seq);
  if (it == sequences_.end()) return otherwise;
  int64_t n = 0;
  for (const auto& video : it->second) n += video.tokens();
  return n;
}

at::Tensor MeterLink::linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  auto y = next.linear(x, w, b, seq);
  const auto it = weights_.find(w);
  if (it == weights_.end() || pass().recompute) return y;
  const auto& weight = it->second;
  if (weight.column && y.size(-1) > 0) cut_ = weight.out / y.size(-1);
  const int64_t local = x.size(-1) ? x.numel() / x.size(-1) : 0;
  const int64_t rows = seq && x.dim() == 3 ? x.size(0) * tokens(seq, x.size(1)) : local;
  flops_.linear[weight.name] +=
      2.0 * static_cast<double>(rows) * static_cast<double>(weight.in) * static_cast<double>(weight.out);
  return y;
}

double MeterLink::pairs(const kinora_attention& how, int64_t queries, int64_t keys) const {
  const auto known = sequences_.find(how.kv_seq), asking = sequences_.find(how.q_seq);
  const auto beside = borrow<at::Tensor>(how.k_shared), table = borrow<at::Tensor>(how.k_table);
  const int64_t asked = tokens(how.q_seq, queries);
  double out = beside.defined() ? static_cast<double>(asked * beside.size(1)) : 0;
  if (known != sequences_.end()) {
    for (const auto& v : known->second) {
      const int64_t seen = how.over == KINORA_OVER_SPACE  ? v.space
                           : how.over == KINORA_OVER_TIME ? v.frames
                                                          : v.tokens();
      const int64_t its = asking == known || known->second.size() > 1 ? v.tokens() : asked;
      out += static_cast<double>(its * seen);
    }
    return out;
  }
  if (!table.defined() || asking == sequences_.end()) return out + static_cast<double>(asked * keys);
  // Texts of a packed row, one per video; on the meta device, where a table has no values, all of one length.
  const auto n = static_cast<int64_t>(asking->second.size());
  for (int64_t i = 0; i < n; ++i) {
    const int64_t its =
        table.is_meta() ? keys / n : table[0].select(1, KINORA_TOKEN_SAMPLE).eq(i).sum().item<int64_t>();
    out += static_cast<double>(asking->second[static_cast<size_t>(i)].tokens() * its);
  }
  return out;
}

at::Tensor MeterLink::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const kinora_attention& how) {
  if (!pass().recompute)
    flops_.attention[how.name] += 2.0 * static_cast<double>(q.size(0)) * pairs(how, q.size(1), k.size(1)) *
                                  static_cast<double>(cut_ * q.size(2) * (q.size(3) + v.size(3)));
  return next.attention(q, k, v, how);
}

at::Tensor MeterLink::sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) {
  auto out = next.sequence(x, spec, seq);
  auto& videos = sequences_[seq] = {{spec.frames, spec.rows * spec.cols}};
  if (spec.n_samples > 0) videos.clear();
  for (uint64_t i = 0; i < spec.n_samples; ++i) {
    const auto* size = spec.sizes + 3 * i;
    videos.push_back({size[0], size[1] * size[2]});
  }
  return out;
}

at::Tensor MeterLink::reshard(const at::Tensor& x, kinora_seq seq, Over over, kinora_seq& to) {
  auto out = next.reshard(x, seq, over, to);
  if (const auto it = sequences_.find(seq); it != sequences_.end()) sequences_[to] = it->second;
  return out;
}

namespace {
thread_local double* counted = nullptr;  // counter of the thread's innermost meter
}

void count_convolution(double flops) {
  if (counted) *counted += flops;
}

ConvolutionMeter::ConvolutionMeter() : before_(counted) { counted = &flops_; }
ConvolutionMeter::~ConvolutionMeter() { counted = before_; }

namespace {

// A network on the meta device with a meter.
template <class N>
struct Metered {
  Metered(const Component& component, const Options& options)
      : network(component, options, {.device = at::kMeta}, {meter.get()}) {}
  template <class F>
  Flops of(F&& call) {
    const at::NoGradGuard off;
    const ConvolutionMeter convolutions;
    meter.reset();
    network.chain().begin({.struct_size = sizeof(kinora_pass), .no_grad = 1});
    call(network);
    Flops out = meter.flops();
    out.convolution = convolutions.flops();
    return out;
  }
  MeterLink meter;
  N network;
};

}  // namespace

Flops model_flops(const Component& component, const Options& options, const NamedTensors& inputs) {
  NamedTensors shapes;
  for (const auto& [name, t] : inputs)
    if (t.defined()) shapes[name] = name == "sizes" || name == "grid" || name == "position" ? t : on_meta(t);
  return Metered<Model>(component, options).of([&](Model& model) { model.forward(shapes); });
}

TokenizerFlops tokenizer_flops(const Component& component, const Options& options, const at::Tensor& video,
                               const at::Tensor& latent) {
  Metered<Tokenizer> metered(component, options);
  TokenizerFlops out;
  at::Tensor made = latent;
  if (video.defined())
    out.encode = metered.of([&](Tokenizer& tokenizer) { made = tokenizer.encode(on_meta(video)); });
  if (latent.defined()) made = on_meta(latent);
  if (made.defined()) out.decode = metered.of([&](Tokenizer& tokenizer) { tokenizer.decode(made); });
  return out;
}

double training_flops(const Component& component, const Options& options, const NamedTensors& inputs,
                      bool frozen, std::string& why) {
  try {
    const Flops f = with_plain_errors([&] { return model_flops(component, options, inputs); });
    const double weights = f.linear_total() + f.convolution;
    return kTrainingStep * f.total() - (frozen ? weights : 0);
  } catch (const std::exception& e) {
    why = e.what();
    why.resize(std::min(why.find('\n'), why.size()));
    return 0;
  }
}

}  // namespace kinora::core
