#include "core/torch/chain/end_links.hpp"

#include <cstddef>
#include <numeric>

#include <ATen/ATen.h>

#include "core/base/cancel.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/row_transfer.hpp"

namespace kinora::core {

kinora_seq Sequences::number_of(const kinora_seq_spec& s, const at::Tensor& table) {
  const auto is = [&](const NumberedTable& k) {
    if (k.frames != s.frames || k.rows != s.rows || k.cols != s.cols || k.table.sizes() != table.sizes())
      return false;
    return (k.table.data_ptr() == table.data_ptr() && k.table.strides() == table.strides()) ||
           at::equal(k.table, table);
  };
  for (auto it = known_.begin(); it != known_.end(); ++it)
    if (is(*it)) {
      known_.splice(known_.begin(), known_, it);
      return it->number;
    }
  constexpr size_t most = 256;
  if (known_.size() == most) known_.pop_back();
  known_.push_front({++last_, s.frames, s.rows, s.cols, table});
  return last_;
}

const at::Tensor& Sequences::table(kinora_seq seq) {
  for (auto it = known_.begin(); it != known_.end(); ++it)
    if (it->number == seq) {
      known_.splice(known_.begin(), known_, it);
      return it->table;
    }
  raise(KINORA_ERROR_INVALID,
        "sequence {} is not known; take it from sequence() or reshard() of the same run, and not 0 (shared "
        "tensors have no table)",
        seq);
}

SampleKeys::SampleKeys() {
  api_.struct_size = sizeof api_;
  api_.self = this;
  api_.number = [](void* self, const kinora_pass* pass, int64_t i) {
    return static_cast<const SampleKeys*>(self)->number(*pass, i);
  };
  api_.row = [](void* self, const kinora_pass* pass, const int64_t** first, uint64_t* n) -> int32_t {
    const auto& keys = *static_cast<const SampleKeys*>(self);
    *n = static_cast<uint64_t>(keys.samples(*pass));
    *first = *n ? keys.of(*pass)->tokens.data() : nullptr;
    return KINORA_OK;
  };
}

void SampleKeys::begin(const kinora_pass& pass, std::vector<int64_t> numbers) {
  constexpr size_t most = 1024;  // forwards without a backward end nothing
  if (batches_.size() >= most) batches_.clear();
  batches_[pass.first_sample] = {std::move(numbers), {}, {}};
}

void SampleKeys::set_row(const kinora_pass& pass, const std::vector<VideoSize>& samples) {
  Batch& batch = batches_[pass.first_sample];
  batch.tokens.clear(), batch.frames.clear();
  if (samples.empty()) return;
  batch.tokens = batch.frames = {0};
  for (const auto& s : samples) {
    batch.tokens.push_back(batch.tokens.back() + s.frames * s.rows * s.cols);
    batch.frames.push_back(batch.frames.back() + s.frames);
  }
}

const SampleKeys::Batch* SampleKeys::of(const kinora_pass& pass) const {
  const auto found = batches_.find(pass.first_sample);
  return found == batches_.end() ? nullptr : &found->second;
}

int64_t SampleKeys::samples(const kinora_pass& pass) const {
  const Batch* batch = of(pass);
  return batch && !batch->tokens.empty() ? static_cast<int64_t>(batch->tokens.size()) - 1 : 0;
}

int64_t SampleKeys::number(const kinora_pass& pass, int64_t i) const {
  const Batch* batch = of(pass);
  const bool known = batch && i >= 0 && i < static_cast<int64_t>(batch->numbers.size());
  return known ? batch->numbers[static_cast<size_t>(i)] : pass.first_sample + i;
}

at::Tensor SampleKeys::numbers(const kinora_pass& pass, const std::vector<int64_t>& of) const {
  std::vector<int64_t> out;
  for (const int64_t i : of) out.push_back(number(pass, i));
  return at::tensor(out, at::kLong);
}

namespace {

std::vector<int64_t> counted(int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace

TokenKeys SampleKeys::of_tokens(const kinora_pass& pass, const at::Tensor& given, int64_t B) const {
  const at::Tensor table = given.to(at::kCPU), index = table.select(2, KINORA_TOKEN_INDEX);
  const int64_t n = samples(pass);
  if (n == 0) return {numbers(pass, counted(B)).unsqueeze(1), index};
  const at::Tensor sample = table.select(2, KINORA_TOKEN_SAMPLE).clamp_min(0),
                   first = at::tensor(of(pass)->tokens, at::kLong);
  const auto each = [&](const at::Tensor& of) {
    return of.index_select(0, sample.flatten()).view(sample.sizes());
  };
  return {each(numbers(pass, counted(n))), at::where(index.lt(0), index, index - each(first))};
}

TokenKeys SampleKeys::of_shared(const kinora_pass& pass, int64_t B, int64_t R,
                                const std::string& what) const {
  const int64_t n = samples(pass);
  const at::Tensor places = at::arange(R, at::kLong).unsqueeze(0);
  if (n == 0 || (B == n && n > 1)) return {numbers(pass, counted(B)).unsqueeze(1), places};
  const auto& [known, tokens, frames] = *of(pass);
  // The sample of each of the rows that `first` divides, and its place in the sample.
  const auto divided = [&](const std::vector<int64_t>& first) {
    TokenKeys out{at::empty({1, first.back()}, at::kLong), at::empty({1, first.back()}, at::kLong)};
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = first[static_cast<size_t>(i)], count = first[static_cast<size_t>(i) + 1] - at;
      out.sample.narrow(1, at, count).fill_(number(pass, i));
      out.place.narrow(1, at, count).copy_(at::arange(count, at::kLong).unsqueeze(0));
    }
    return out;
  };
  if (B == frames.back() && R == 1) {
    const TokenKeys by_frame = divided(frames);
    return {by_frame.sample.t(), by_frame.place.t()};
  }
  if (B == 1 && R == frames.back()) return {divided(frames).sample, at::zeros_like(places)};
  if (B == 1 && R == tokens.back()) return divided(tokens);
  if (B == 1 && R % n == 0) {
    std::vector<int64_t> first;
    for (int64_t i = 0; i <= n; ++i) first.push_back(i * (R / n));
    return divided(first);
  }
  raise(KINORA_ERROR_UNSUPPORTED,
        "{}: a tensor of {} x {} rows is not of the {} samples of a packed row, nor of their {} frames or {} "
        "tokens; "
        "leave dropout out, or train in buckets",
        what, B, R, n, frames.back(), tokens.back());
}

BaseLink::BaseLink(const Frames& frames, const SampleKeys& keys, at::Device device, at::ScalarType dtype,
                   std::optional<uint64_t> seed, bool may_stop)
    : Link(KINORA_LEVEL_BASE, KINORA_ATTENTION_CODES),
      frames_(frames),
      keys_(keys),
      device_(device),
      dtype_(dtype),
      seed_(seed),
      may_stop_(may_stop) {}

kinora_param BaseLink::parameter(const kinora_param_spec& s) {
  auto p = make_parameter(s);
  if (stage_ != Stage::declaring)
    raise(KINORA_ERROR_INVALID,
          "parameter '{}' is declared after create(); a model must declare all of them there", p.name);
  if (!names_.insert(p.name).second)
    raise(KINORA_ERROR_INVALID, "parameter '{}' was declared before", p.name);
  parameters_.push_back(std::move(p));
  return static_cast<kinora_param>(parameters_.size());
}

const Parameter& BaseLink::parameter_of(kinora_param p) const {
  if (p < 1 || p > static_cast<kinora_param>(parameters_.size()))
    raise(KINORA_ERROR_INVALID, "parameter number {} was never declared ({} are)", p, parameters_.size());
  return parameters_[static_cast<size_t>(p - 1)];
}

at::Tensor BaseLink::drawn(const Parameter& p) const {
  const auto how = at::TensorOptions().dtype(dtype_).device(device_);
  if (device_.is_meta()) return at::empty(p.local_shape(), how);
  return seed_ ? draw(p, *seed_, dtype_).to(device_) : at::zeros(p.local_shape(), how);
}

void BaseLink::skip_block(int64_t block) {
  if (stage_ != Stage::declaring || block < 0)
    raise(KINORA_ERROR_INVALID, "block {} can be skipped only inside a link's declared()", block);
  skipped_.insert(block);
  for (auto& p : parameters_) p.absent = p.absent || p.block == block;
}

void BaseLink::keep_the_rest(const std::set<kinora_param>& taken) {
  stage_ = Stage::running;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const bool mine = !parameters_[i].absent && taken.count(static_cast<kinora_param>(i + 1)) == 0;
    values_.push_back(mine ? drawn(parameters_[i]).set_requires_grad(!parameters_[i].frozen) : Tensor());
  }
}

at::Tensor BaseLink::value(kinora_param id) {
  const auto& p = parameter_of(id);
  if (stage_ == Stage::declaring)
    raise(KINORA_ERROR_INVALID, "parameter '{}' has no value yet: create() only declares", p.name);
  if (p.absent)
    raise(KINORA_ERROR_INVALID,
          "parameter '{}' of block {} was asked for on a rank that does not run that block", p.name, p.block);
  if (stage_ == Stage::taking) return drawn(p);
  const auto& v = values_[static_cast<size_t>(id - 1)];
  if (!v.defined())
    raise(KINORA_ERROR_INVALID,
          "parameter '{}' was taken over by a link above; ask the head of the chain for it", p.name);
  return v;
}

at::Tensor BaseLink::linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq) {
  const auto as_x = [&](const Tensor& t) { return t.to(x.scalar_type()); };
  // head, not value(): links above may own or change the weight.
  const auto weight = as_x(head.value(w));
  return b ? at::linear(x, weight, as_x(head.value(b))) : at::linear(x, weight);
}

at::Tensor BaseLink::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                               const kinora_attention& how) {
  if (q.is_meta()) return at::empty_like(q);
  const auto decoded = [&](const Tensor& x, kinora_tensor scales) {
    if (!(how.needs & KINORA_ATTENTION_CODES)) return x;
    const auto by = borrow<Tensor>(scales);
    if (!by.defined() || x.dim() != 4 || by.sizes() != x.narrow(3, 0, 1).sizes())
      raise(KINORA_ERROR_INVALID, "attention '{}': codes {} need scales [B, L, heads, 1]",
            how.name ? how.name : "", c10::str(x.sizes()));
    const auto wide = at::promote_types(q.scalar_type(), at::kFloat);
    return (x.to(wide) * by.to(wide)).to(q.scalar_type());
  };
  return core::attention(q, decoded(k, how.k_scales), decoded(v, how.v_scales), how, frames_, plans_,
                         q.is_cuda() ? &fp8_ : nullptr);
}

BaseLink::Tensors BaseLink::block(const kinora_block& b, const Tensors& in) {
  if (may_stop_ && cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  std::vector<kinora_tensor> handles, out(b.n_out, nullptr);
  for (const auto& t : in) handles.push_back(handle(t));
  check_or_stop(b.fn(b.user, handles.data(), out.data()));
  Tensors made;
  for (auto* h : out) made.push_back(adopt<Tensor>(h));
  return made;
}

at::Tensor BaseLink::sequence(const Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) {
  const auto table = borrow<Tensor>(spec.table);
  if (!table.defined() || table.dim() != 3 || table.size(1) != x.size(1) ||
      table.size(2) < KINORA_TOKEN_COLUMNS)
    raise(KINORA_ERROR_INVALID,
          "sequence: the table {} is not [1 or B, {}, at least {}]; a link above cut only one of tokens and "
          "table",
          table.defined() ? c10::str(table.sizes()) : "(none)", x.size(1), KINORA_TOKEN_COLUMNS);
  seq = sequences_.number_of(spec, table);
  return x;
}

at::Tensor BaseLink::reshard(const Tensor& x, kinora_seq seq, Over, kinora_seq& to) {
  to = seq;
  return x;
}

at::Tensor BaseLink::lookup(const Tensor& ids, kinora_param p, kinora_seq) {
  return at::embedding(head.value(p), ids);
}

at::Tensor BaseLink::share(const std::vector<double>& costs) {
  return at::arange(static_cast<int64_t>(costs.size()), at::kLong);
}

at::Tensor BaseLink::place(const Tensor& made, const std::vector<int64_t>& index,
                           const std::vector<int64_t>& rows, kinora_seq seq) {
  return RowTransfer::to_holders(Group<Tensor>(), {std::vector<int64_t>(rows.size()), index, rows},
                                 sequences_.table(seq).select(2, KINORA_TOKEN_INDEX))(made)
      .unsqueeze(0);
}

at::Tensor BaseLink::noise(const Tensor& like, kinora_seq seq, const char* key) {
  if (like.is_meta()) return at::empty_like(like);
  const auto now = pass();
  const auto keys = seq ? keys_.of_tokens(now, sequences_.table(seq), like.size(0))
                        : keys_.of_shared(now, like.size(0), like.size(1), key);
  return token_noise(like, keys.place, now.seed, keys.sample, key);
}

void RootLink::declared() {
  if (mesh()) ranks_ = Mesh<at::Tensor>(mesh()).group("cp+tp");
}

at::Tensor RootLink::share(const std::vector<double>& costs) {
  if (!ranks_.get() || ranks_.size() == 1) return next.share(costs);
  constexpr size_t most = 1024;  // as many forwards as SampleKeys keeps
  if (owners_.size() >= most) owners_.clear();
  const auto& owner = owners_[{pass().first_sample, costs.size()}] = share_by_cost(costs, ranks_.size());
  return at::tensor(owner, at::kLong).eq(ranks_.rank()).nonzero().flatten();
}

at::Tensor RootLink::place(const at::Tensor& made, const std::vector<int64_t>& index,
                           const std::vector<int64_t>& rows, kinora_seq seq) {
  if (!ranks_.get() || ranks_.size() == 1) return next.place(made, index, rows, seq);
  const auto owner = owners_.find({pass().first_sample, rows.size()});
  if (owner == owners_.end())
    raise(KINORA_ERROR_INVALID, "place: this forward shared no {} items; call share() first", rows.size());
  if (held_.size() > 256)
    held_.clear();  // as many geometries as the base keeps; in the same call on all ranks
  auto& held = held_[seq];
  if (!held.defined()) {
    const at::Tensor own = next.table(seq, Place::stream).select(2, KINORA_TOKEN_INDEX);
    held = ranks_.gather(own.contiguous(), 0).to(at::kCPU);
  }
  return RowTransfer::to_holders(ranks_, {owner->second, index, rows}, held)(made).unsqueeze(0);
}

namespace {

std::vector<VideoSize> samples_of(const kinora_seq_spec& s) {
  if (s.n_samples == 0) return {{s.frames, s.rows, s.cols}};
  std::vector<VideoSize> out;
  int64_t tokens = 0;
  for (uint64_t i = 0; i < s.n_samples; ++i) {
    const int64_t* size = s.sizes + 3 * i;
    if (size[0] < 1 || size[1] < 1 || size[2] < 1)
      raise(KINORA_ERROR_INVALID, "sequence: sample {} of a packed row has {} frames of {} x {} tokens", i,
            size[0], size[1], size[2]);
    out.push_back({size[0], size[1], size[2]});
    tokens += size[0] * size[1] * size[2];
  }
  if (tokens != s.frames || s.rows != 1 || s.cols != 1)
    raise(KINORA_ERROR_INVALID,
          "sequence: the samples of a packed row have {} tokens, and frames, rows, cols are {}, {}, {}; "
          "{}, 1, 1 are expected",
          tokens, s.frames, s.rows, s.cols, tokens);
  return out;
}

}  // namespace

RootLink::RootLink(const Frames& frames, SampleKeys& keys, at::Device device, int64_t token_multiple)
    : Link(KINORA_LEVEL_ROOT),
      frames_(frames),
      keys_(keys),
      device_(device),
      token_multiple_(std::max<int64_t>(token_multiple, 1)) {
  skip_inherited<RootLink>();
}

const at::Tensor& RootLink::table_of(const std::vector<VideoSize>& samples, int64_t padding) {
  for (const auto& m : tables_)
    if (m.samples == samples) return m.table;
  constexpr size_t most = 64;
  if (tables_.size() == most) tables_.pop_front();
  const auto table = token_table(frames_, samples, padding);
  tables_.push_back({samples, device_.is_meta() ? table : table.to(device_)});
  return tables_.back().table;
}

at::Tensor RootLink::sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) {
  const int64_t n = spec.frames * spec.rows * spec.cols;
  if (x.dim() != 3 || x.size(1) != n)
    raise(KINORA_ERROR_INVALID,
          "sequence: {} frames of {} x {} tokens are {}, but x is {}; [B, {}, D] is expected", spec.frames,
          spec.rows, spec.cols, n, c10::str(x.sizes()), n);
  const int64_t padding = (token_multiple_ - n % token_multiple_) % token_multiple_;
  const auto samples = samples_of(spec);
  keys_.set_row(pass(), spec.n_samples ? samples : std::vector<VideoSize>());
  const auto& table = table_of(samples, padding);
  // The table states which samples the row contains, so the links below need no sizes.
  kinora_seq_spec with_table{sizeof with_table, spec.needs,    spec.frames, spec.rows,
                             spec.cols,         handle(table), 0,           nullptr};
  auto out = next.sequence(padding ? at::constant_pad_nd(x, {0, 0, 0, padding}) : x, with_table, seq);
  lengths_[seq] = n;
  return out;
}

const void* RootLink::get_interface(const char* id, uint32_t) {
  return std::string_view(id) == KINORA_INTERFACE_SAMPLE_KEYS ? keys_.api() : nullptr;
}

at::Tensor RootLink::gather(const at::Tensor& x, kinora_seq seq) {
  auto out = next.gather(x, seq);
  const auto it = lengths_.find(seq);
  return it == lengths_.end() || it->second == out.size(1) ? out : out.narrow(1, 0, it->second);
}

at::Tensor RootLink::table(kinora_seq seq, Place place) {
  auto out = next.table(seq, place);
  return device_.is_meta() ? out.to(device_) : out;
}

at::Tensor RootLink::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const kinora_attention& how) {
  at::Tensor q_table, k_table;
  if (how.q_seq) q_table = next.table(how.q_seq, Place::inner);
  if (how.kv_seq)
    k_table = how.kv_seq == how.q_seq ? q_table : next.table(how.kv_seq, Place::inner);
  else
    k_table = borrow<at::Tensor>(how.k_table);  // given by a model: the owners of the shared keys
  if (!how.kv_seq && k_table.defined() && (!how.q_seq || how.kv_valid))
    raise(KINORA_ERROR_INVALID,
          "attention '{}': a k_table of shared keys is for queries of a sequence, without kv_valid",
          how.name);
  auto with_tables = how;
  with_tables.q_table = handle(q_table);
  with_tables.k_table = handle(k_table);
  return next.attention(q, k, v, with_tables);
}

}  // namespace kinora::core
