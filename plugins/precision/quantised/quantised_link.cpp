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
namespace {

// int64 [n], where x is.
Tensor index_like(const std::vector<int64_t>& rows, const Tensor& x) {
  const std::vector<double> numbers(rows.begin(), rows.end());
  const Tensor index = tensor(numbers).to(KINORA_DTYPE_INT64);
  const auto info = x.info();
  if (info.device_type == KINORA_DL_CPU) return index;
  return op("aten::to", "device", {index, info.device_id, KINORA_DTYPE_INT64});
}

}  // namespace

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
  if (s.ndim != 2 || s.role >= KINORA_ROLE_TABLE) return p;
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
  const auto* above = static_cast<const kinora_attends*>(
      all->get_interface(all->self, KINORA_INTERFACE_ATTENDS, KINORA_ABI_MINOR));
  if (above)
    throw Error(KINORA_ERROR_UNSUPPORTED,
                "attention = \"fp8\": " + std::string(above->name) +
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
    geometries_.erase(geometries_.begin());
    parts_.clear();
  }
  const int64_t frame = spec.rows * spec.cols;
  geometries_[seq] = {spec.frames * frame, spec.n_samples ? 0 : frame};
  return out;
}

const kinora_sample_keys* QuantisedLink::sample_keys() {
  const kinora_context* const all = head.get();
  if (!keys_)
    keys_ = static_cast<const kinora_sample_keys*>(
        all->get_interface(all->self, KINORA_INTERFACE_SAMPLE_KEYS, KINORA_ABI_MINOR));
  return *keys_;
}

std::vector<int64_t> QuantisedLink::packed_row() {
  const auto* const keys = sample_keys();
  if (!keys) return {};
  const int64_t* first = nullptr;
  uint64_t n = 0;
  const kinora_pass now = pass();
  check(keys->row(keys->self, &now, &first, &n));
  return n > 1 ? std::vector<int64_t>(first, first + n + 1) : std::vector<int64_t>();
}

int64_t QuantisedLink::sample_number(const kinora_pass& now, int64_t i) {
  const auto* keys = sample_keys();
  return keys ? keys->number(keys->self, &now, i) : now.first_sample + i;
}

namespace {

std::vector<int64_t> column_of(const Tensor& table, int64_t column) {
  constexpr int kCpu = -1;  // a device argument of kinora_value
  const Tensor of = op("aten::select", "int", {table, 2, column})[0],
               here = op("aten::to", "device", {of, kCpu, KINORA_DTYPE_INT64}).contiguous();
  const int64_t* const first = here.data<int64_t>();
  return {first, first + here.numel()};
}

// Rows `rows` of x [B, S, C].
Tensor rows_of(const Tensor& x, const std::vector<int64_t>& rows) {
  const auto count = static_cast<int64_t>(rows.size());
  const bool in_a_row = rows.empty() || rows.back() - rows.front() + 1 == count;  // they ascend
  if (in_a_row) return x.narrow(1, rows.empty() ? 0 : rows.front(), count);
  return op("aten::index_select", "", {x, 1, index_like(rows, x)});
}

}  // namespace

std::shared_ptr<const QuantisedLink::Parts> QuantisedLink::parts(kinora_seq seq, Place place) {
  const auto first = packed_row();
  auto& known = parts_[{seq, place, first}];
  if (known) return known;
  const Tensor table = head.table(seq, place);
  const auto index = column_of(table, KINORA_TOKEN_INDEX);
  Parts out;
  out.rows = static_cast<int64_t>(index.size());
  if (first.empty()) {
    const auto geometry = geometries_.find(seq);
    out.of.push_back({std::make_shared<const Tokens>(tokens_of(index)),
                      {},
                      geometry == geometries_.end() ? -1 : geometry->second.length});
    return known = std::make_shared<const Parts>(std::move(out));
  }
  int64_t at = 0;
  out.back.resize(index.size());
  for (auto& s : samples_of(index, column_of(table, KINORA_TOKEN_SAMPLE), first)) {
    for (const int64_t row : s.rows) out.back[static_cast<size_t>(row)] = at++;
    out.of.push_back({std::make_shared<const Tokens>(std::move(s.tokens)), std::move(s.rows), s.length});
  }
  out.padding = out.rows - at;
  for (size_t row = 0; row < index.size(); ++row)
    if (index[row] < 0) out.back[row] = at++;
  if (std::is_sorted(out.back.begin(), out.back.end())) out.back.clear();
  return known = std::make_shared<const Parts>(std::move(out));
}

Tensor QuantisedLink::high(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  return options_.exact ? next.linear(x, w, b, seq) : Bf16Link::linear(x, w, b, seq);
}

// The tokens of a layer's tensors. Refuses a cut through a block that the gradient of the weight needs.
std::shared_ptr<const QuantisedLink::Parts> QuantisedLink::parts_for(const Weight& w, kinora_seq seq,
                                                                     bool trained) {
  const auto of = parts(seq, w.role == KINORA_ROLE_WHOLE ? Place::stream : Place::inner);
  std::string cut;
  for (const Part& part : of->of)
    if (cut.empty()) cut = cut_tile(*part.tokens, format_->group(), part.length);
  if (cut.empty() || !trained) return of;
  const auto known = geometries_.find(seq);
  const Geometry geometry = known == geometries_.end() ? Geometry{-1, 0} : known->second;
  if (of->is_packed())
    throw Error(
        KINORA_ERROR_INVALID,
        "'" + w.layer.name + "': " + std::to_string(format_->group()) +
            " tokens of a sample share a scale of the weight's gradient, and in this packed row a rank's " +
            cut +
            " of a sample cut such a group; set batches = \"buckets\" in the train job, or give a sequence "
            "to 1 rank, or list the layer in high");
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
  const auto parts = parts_for(weights_.at(w), seq, GradMode::enabled() && weight.requires_grad());
  if (x.dim() != 3 || x.size(1) != parts->rows)
    throw Error(KINORA_ERROR_INVALID, "'" + name + "': x is not [B, " + std::to_string(parts->rows) +
                                          ", channels], as its sequence has it on this rank");
  const kinora_pass now = pass();
  NoiseSource noise{Random(now.seed, "precision." + name + "." + std::to_string(now.step)).key(), {}};
  Figures* const figures = measures_ ? &figures_.at(w) : nullptr;
  RoundedWeight rounded;
  std::shared_ptr<GpuWeight> rounded_there;
  const auto low = [&](const Part& part, const Tensor& some) {
    if (cuda)
      return linear_on_gpu(*cuda, layer->second, part.tokens, noise, figures, some, weight,
                           /*like_x=*/!b && !keeps_sum(x, w), rounded_there);
    const auto call = std::make_shared<LowLinear>(layer->second, part.tokens, noise, figures);
    return LowLinear::apply(call, some, weight, rounded);
  };
  const auto count = static_cast<int64_t>(parts->of.size());
  std::vector<Tensor> out;
  for (int64_t i = 0; i < count; ++i) {
    const Part& part = parts->of[static_cast<size_t>(i)];
    noise.samples.clear();
    for (int64_t row = 0; row < x.size(0); ++row)
      noise.samples.push_back(sample_number(now, row * count + i));
    out.push_back(low(part, parts->is_packed() ? rows_of(x, part.rows) : x));
  }
  if (!parts->is_packed()) return finished(out[0], x, w, b);
  if (parts->padding > 0)
    out.push_back(
        op("aten::new_zeros", "", {out[0], std::vector<int64_t>{x.size(0), parts->padding, out[0].size(2)}}));
  const Tensor all = op("aten::cat", "", {out, 1});
  return finished(
      parts->back.empty() ? all : op("aten::index_select", "", {all, 1, index_like(parts->back, x)}), x, w,
      b);
}

Tensor QuantisedLink::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                const kinora_attention& how) {
  attends_ |= how.kv_seq != 0;
  const bool low = options_.fp8_attention && low_blocks_.count(how.block) && !is_over() &&
                   !(how.needs & KINORA_ATTENTION_CODES) && q.info().device_type != KINORA_NO_STORAGE;
  if (!low) return options_.exact ? next.attention(q, k, v, how) : Bf16Link::attention(q, k, v, how);
  // Below a strategy that exchanges heads, a rank has all tokens of its heads; queries of shared keys, which
  // are not exchanged, are its own.
  const Group<Tensor> none, others = how.kv_seq ? none : context_ranks_;
  const Tensor q_table = borrow<Tensor>(how.q_table), k_table = borrow<Tensor>(how.k_table);
  kinora_attention as = how;
  Tensor k_shared, v_shared;
  const auto packed = packed_row();
  const int64_t samples = packed.empty() ? 1 : static_cast<int64_t>(packed.size()) - 1;
  if (how.k_shared) {
    k_shared = rounded_heads(borrow<Tensor>(how.k_shared), {}, none, 1).x;
    v_shared = rounded_heads(borrow<Tensor>(how.v_shared), {}, none, 1).x;
    as.k_shared = k_shared.get();
    as.v_shared = v_shared.get();
  }
  const RoundedHeads low_q = rounded_heads(q, q_table, others, samples),
                     low_k = rounded_heads(k, k_table, none, samples),
                     low_v = rounded_heads(v, k_table, none, samples);
  if (!options_.exact && low_q.factor.defined() && low_k.factor.defined()) {
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

// A pipeline stage before the last one never calls gather(), so it reports here.
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
