#include "plugins/precision/quantised/quantised_link.hpp"

#include <algorithm>
#include <utility>

#include "kernels/torch/gpu.hpp"
#include "kinora/abi/attends.h"
#include "kinora/precision.hpp"
#include "kinora/random.hpp"
#include "plugins/precision/quantised/gpu_linear.hpp"
#include "plugins/precision/quantised/rounded_heads.hpp"

namespace kinora::quantised {

QuantisedLink::QuantisedLink(std::shared_ptr<const Format> format, Options options)
    : format_(std::move(format)), options_(std::move(options)) {
  rounding_.struct_size = sizeof rounding_;
  rounding_.self = this;
  rounding_.measure = [](void* self, uint32_t on) {
    auto& link = *static_cast<QuantisedLink*>(self);
    link.measures_ = on != 0;
    if (on)
      for (auto& [p, figures] : link.figures_) figures = {};
    return KINORA_OK;
  };
  rounding_.layer = [](void* self, int64_t i, const char** name, kinora_rounding_sums* sums) -> int32_t {
    auto& link = *static_cast<QuantisedLink*>(self);
    if (i < 0 || i >= static_cast<int64_t>(link.low_.size())) return KINORA_ERROR_NOT_FOUND;
    const auto layer = std::next(link.low_.begin(), i);
    *name = layer->second.name.c_str();
    std::copy_n(link.figures_[layer->first].of, KINORA_OPERANDS, sums);
    return KINORA_OK;
  };
}

const void* QuantisedLink::get_interface(const char* id, uint32_t) {
  return std::string_view(id) == KINORA_INTERFACE_ROUNDING ? &rounding_ : nullptr;
}

kinora_param QuantisedLink::parameter(const kinora_param_spec& s) {
  const kinora_param p = Bf16Link::parameter(s);
  last_block_ = std::max(last_block_, s.block);
  if (s.ndim != 2 || s.role == KINORA_ROLE_TABLE) return p;
  Weight w{{s.name, s.block}, s.role, {s.shape[0], s.shape[1]}, {}, s.shard, std::max<int64_t>(s.shards, 1)};
  const int64_t parts = std::max<int64_t>(s.n_parts, 1);
  for (int64_t i = 0; i < parts; ++i)
    w.parts.push_back(s.n_parts > 1 && s.parts ? s.parts[i] : w.cut_size() / parts);
  weights_.emplace(p, std::move(w));
  return p;
}

void QuantisedLink::declared() {
  std::vector<Layer> layers;
  for (const auto& [p, w] : weights_) layers.push_back(w.layer);
  if (!options_.of_quantize.empty())
    throw Error(
        KINORA_ERROR_INVALID,
        options_.of_quantize +
            " is an option of `kinora apply --method quantize` alone and changes no linear layer; remove it");
  const auto high = high_layers(options_.high, layers, last_block_);
  std::vector<kinora_param_spec> low;
  size_t i = 0;
  for (const auto& [p, w] : weights_) {
    if (high[i++]) continue;
    low_.emplace(p, low_layer(p, w));
    figures_[p];
    low_blocks_.insert(w.layer.block);
    low.push_back(spec_of(w));
  }
  require_whole_groups(low, format_->group(), /*outputs_too=*/true);
  require_attention();
  if (!mesh()) return;
  const Group<Tensor> of_sequence = Mesh<Tensor>(mesh()).group("cp");
  sequence_ranks_ = of_sequence.size();
  tensor_ranks_ = Mesh<Tensor>(mesh()).group("tp").size();
  if (options_.fp8_attention) context_ranks_ = of_sequence;
}

void QuantisedLink::require_attention() const {
  if (!options_.fp8_attention || low_.empty()) return;
  const kinora_context* const all = head.get();
  if (const void* name = all->get_interface(all->self, KINORA_INTERFACE_ATTENDS, KINORA_ABI_MINOR))
    throw Error(KINORA_ERROR_UNSUPPORTED,
                "attention = \"fp8\": " + std::string(static_cast<const char*>(name)) +
                    " attends by itself and does not round; use cp-ulysses or stdit-hybrid's layout = "
                    "\"ulysses\", or "
                    "leave attention in bf16");
}

void QuantisedLink::tell() {
  const bool speaks = !mesh() || Mesh<Tensor>(mesh()).rank() == 0;
  if (is_over() && !std::exchange(told_end_, true) && speaks)
    log(Log::info, std::string(format_->name()) + ": from step " + std::to_string(options_.until) +
                       " on (until) all layers are in bfloat16");
  if (is_over() || std::exchange(told_, true) || !speaks) return;
  std::vector<Layer> layers;
  std::vector<bool> high;
  for (const auto& [p, w] : weights_) {
    if (!holds_block(w.layer.block)) continue;
    layers.push_back(w.layer);
    high.push_back(!low_.count(p) || !of_tokens_.count(p));
  }
  const std::string names = text_of(layers, high, last_block_);
  const auto low = std::count(high.begin(), high.end(), false);
  if (low == 0)
    log(Log::warn, std::string(format_->name()) +
                       ": no layer is low, so this is a training in bfloat16; name fewer layers in `high`, "
                       "whose default is for deep models");
  log(Log::info, std::string(format_->name()) + ": " + std::to_string(low) + " of " +
                     std::to_string(layers.size()) +
                     (layers.size() == weights_.size() ? " weights" : " weights of this pipeline stage") +
                     " are low; high: " + (names.empty() ? "none" : names));
}

kinora_param_spec QuantisedLink::spec_of(const Weight& w) {
  kinora_param_spec s{};
  s.name = w.layer.name.c_str();
  s.role = w.role;
  s.shape = w.shape.data();
  s.ndim = 2;
  s.n_parts = static_cast<uint32_t>(w.parts.size());
  s.parts = w.parts.data();
  s.shards = w.shards;
  return s;
}

std::vector<Channels> QuantisedLink::outputs_of(const Weight& w) const {
  if (w.role != KINORA_ROLE_COLUMN || w.shards == 1) return {{0, w.shape[0], 0}};
  std::vector<Channels> out;
  int64_t first = 0, whole = 0;
  for (const int64_t part : w.parts) {
    const int64_t count = part / w.shards;
    out.push_back({first, count, whole + w.shard * count});
    first += count, whole += part;
  }
  return out;
}

LowLayer QuantisedLink::low_layer(kinora_param p, const Weight& w) const {
  LowLayer out{w.layer.name, format_, Group<Tensor>(), Group<Tensor>(), outputs_of(w), gathers(p)};
  if (!mesh()) return out;
  const Mesh<Tensor> ranks(mesh());
  out.of_tokens = ranks.group("cp+tp");
  if (w.shards > 1) out.of_weight = ranks.group("tp");
  return out;
}

Tensor QuantisedLink::sequence(const Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) {
  Tensor out = next.sequence(x, spec, seq);
  constexpr size_t most = 256;  // as many geometries as the base caches
  if (geometries_.size() == most && !geometries_.count(seq)) {
    const kinora_seq oldest = geometries_.begin()->first;
    geometries_.erase(oldest);
    for (const Place place : {Place::stream, Place::inner}) tokens_.erase({oldest, place});
  }
  const int64_t frame = spec.rows * spec.cols;
  geometries_[seq] = {spec.frames * frame, spec.n_samples ? 0 : frame};
  return out;
}

std::shared_ptr<const Tokens> QuantisedLink::tokens(kinora_seq seq, Place place) {
  auto& known = tokens_[{seq, place}];
  if (known) return known;
  constexpr int kCpu = -1;  // a device argument of kinora_value
  const Tensor table = head.table(seq, place),
               column = op("aten::select", "int", {table, 2, KINORA_TOKEN_INDEX})[0],
               index = op("aten::to", "device", {column, kCpu, KINORA_DTYPE_INT64}).contiguous();
  const int64_t* const first = index.data<int64_t>();
  known = std::make_shared<const Tokens>(tokens_of({first, first + index.numel()}));
  return known;
}

Tensor QuantisedLink::high(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  return options_.exact ? next.linear(x, w, b, seq) : Bf16Link::linear(x, w, b, seq);
}

// The tokens of a layer's tensors. Refuses a cut through a block that the gradient of the weight needs.
std::shared_ptr<const Tokens> QuantisedLink::tokens_for(const Weight& w, kinora_seq seq, bool trained) {
  const auto of = tokens(seq, w.role == KINORA_ROLE_WHOLE ? Place::stream : Place::inner);
  const auto known = geometries_.find(seq);
  const Geometry geometry = known == geometries_.end() ? Geometry{-1, 0} : known->second;
  const std::string cut = cut_tile(*of, format_->group(), geometry.length);
  if (cut.empty() || !trained) return of;
  throw Error(KINORA_ERROR_INVALID,
              "'" + w.layer.name + "': " + std::to_string(format_->group()) +
                  " tokens in a row share a scale of the weight's gradient, and a rank's " + cut +
                  " cut such a group; " +
                  size_without_cuts(format_->group(), geometry.frame, sequence_ranks_, tensor_ranks_) +
                  " would do; or use another strategy, such as cp-ring, or list the layer in high");
}

Tensor QuantisedLink::linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  const auto layer = low_.find(w);
  const int32_t device = x.info().device_type;
  if (seq && !told_ && device != KINORA_NO_STORAGE) of_tokens_.insert(w);
  if (!seq || layer == low_.end() || is_over() || device == KINORA_NO_STORAGE) return high(x, w, b, seq);
  is_used_ = true;
  const std::string& name = layer->second.name;
  const kinora_cuda_api* const cuda = device == KINORA_DL_CUDA ? gpu::library() : nullptr;
  if (device != KINORA_DL_CPU && !cuda)
    throw Error(KINORA_ERROR_UNSUPPORTED,
                std::string(format_->name()) +
                    " on a GPU needs libkinora_cuda, which a build for CUDA has; set "
                    "device = \"cpu\"");
  const Tensor weight = head.value(w);
  const auto tokens = tokens_for(weights_.at(w), seq, GradMode::enabled() && weight.requires_grad());
  if (x.dim() != 3 || x.size(1) != tokens->rows)
    throw Error(KINORA_ERROR_INVALID, "'" + name + "': x is not [B, " + std::to_string(tokens->rows) +
                                          ", channels], as its sequence has it on this rank");
  const kinora_pass now = pass();
  const NoiseSource noise{Random(now.seed, "precision." + name + "." + std::to_string(now.step)).key(),
                          now.first_sample};
  Figures* const figures = measures_ ? &figures_.at(w) : nullptr;
  if (cuda)
    return finished(linear_on_gpu(*cuda, layer->second, tokens, noise, figures, x, weight,
                                  /*like_x=*/!b && !keeps_sum(x, w)),
                    x, w, b);
  const auto call = std::make_shared<LowLinear>(layer->second, tokens, noise, figures);
  return finished(LowLinear::apply(call, x, weight), x, w, b);
}

Tensor QuantisedLink::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                const kinora_attention& how) {
  attends_ |= how.kv_seq != 0;
  const bool low = options_.fp8_attention && low_blocks_.count(how.block) && !is_over() &&
                   q.info().device_type != KINORA_NO_STORAGE;
  if (!low) return options_.exact ? next.attention(q, k, v, how) : Bf16Link::attention(q, k, v, how);
  // Below a strategy that exchanges heads, a rank has all tokens of its heads; queries of shared keys, which
  // are not exchanged, are its own.
  const Group<Tensor> none, others = how.kv_seq ? none : context_ranks_;
  const Tensor q_table = borrow<Tensor>(how.q_table), k_table = borrow<Tensor>(how.k_table);
  kinora_attention as = how;
  Tensor k_shared, v_shared;
  if (how.k_shared) {
    k_shared = rounded_heads(borrow<Tensor>(how.k_shared), {}, none).x;
    v_shared = rounded_heads(borrow<Tensor>(how.v_shared), {}, none).x;
    as.k_shared = k_shared.get();
    as.v_shared = v_shared.get();
  }
  const RoundedHeads low_q = rounded_heads(q, q_table, others), low_k = rounded_heads(k, k_table, none),
                     low_v = rounded_heads(v, k_table, none);
  if (!options_.exact) {
    as.q_factor = low_q.factor.get();
    as.k_factor = low_k.factor.get();
    as.v_factor = low_v.factor.get();
  }
  // On a GPU the base multiplies in FP8 where it can, else in bfloat16.
  if (!options_.exact && q.info().device_type == KINORA_DL_CUDA)
    return Bf16Link::attention(low_q.x, low_k.x, low_v.x, as);
  return next.attention(low_q.x, low_k.x, low_v.x, as);
}

void QuantisedLink::begin(const kinora_pass&) { is_used_ = attends_ = false; }

// Of a stage of a pipeline that does not reach gather().
void QuantisedLink::reduce() { tell(); }

Tensor QuantisedLink::gather(const Tensor& x, kinora_seq seq) {
  if (is_used_ && !attends_ && context_ranks_.get() && context_ranks_.size() > 1)
    throw Error(KINORA_ERROR_UNSUPPORTED,
                "attention = \"fp8\": a strategy such as cp-ring attends by itself and does not round; use "
                "cp-ulysses, or leave attention in bf16");
  if (x.info().device_type != KINORA_NO_STORAGE) tell();
  return next.gather(x, seq);
}

}  // namespace kinora::quantised
