#include "core/torch/context/root_link.hpp"

#include <cstddef>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

// Size of the struct before packed rows were added.
constexpr uint32_t kTableEnd = offsetof(kinora_seq_spec, n_samples);

std::vector<VideoSize> samples_of(const kinora_seq_spec& s) {
  if (s.struct_size < sizeof s || s.n_samples == 0) return {{s.frames, s.rows, s.cols}};
  std::vector<VideoSize> out;
  int64_t tokens = 0;
  for (uint64_t i = 0; i < s.n_samples; ++i) {
    const int64_t* size = s.sizes + 3 * i;
    if (size[0] < 1 || size[1] < 1 || size[2] < 1)
      raise(KINORA_INVALID, "sequence: sample {} of a packed row has {} frames of {} x {} tokens", i, size[0],
            size[1], size[2]);
    out.push_back({size[0], size[1], size[2]});
    tokens += size[0] * size[1] * size[2];
  }
  if (tokens != s.frames || s.rows != 1 || s.cols != 1)
    raise(KINORA_INVALID,
          "sequence: the samples of a packed row have {} tokens, and frames, rows, cols are {}, {}, {}; "
          "{}, 1, 1 are expected",
          tokens, s.frames, s.rows, s.cols, tokens);
  return out;
}

}  // namespace

RootLink::RootLink(const Frames& frames, at::Device device, int64_t token_multiple)
    : Link(KINORA_LEVEL_ROOT),
      frames_(frames),
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
    raise(KINORA_INVALID, "sequence: {} frames of {} x {} tokens are {}, but x is {}; [B, {}, D] is expected",
          spec.frames, spec.rows, spec.cols, n, c10::str(x.sizes()), n);
  const int64_t padding = (token_multiple_ - n % token_multiple_) % token_multiple_;
  const auto& table = table_of(samples_of(spec), padding);
  // The table states which samples the row contains; links below read that, also links from before rows could
  // be packed.
  kinora_seq_spec with_table{kTableEnd, 0, spec.frames, spec.rows, spec.cols, handle(table), 0, nullptr};
  auto out = next.sequence(padding ? at::constant_pad_nd(x, {0, 0, 0, padding}) : x, with_table, seq);
  lengths_[seq] = n;
  return out;
}

at::Tensor RootLink::leave(const at::Tensor& x, kinora_seq seq) {
  auto out = next.leave(x, seq);
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
    raise(KINORA_INVALID,
          "attention '{}': a k_table of shared keys is for queries of a sequence, without kv_valid",
          how.name);
  auto with_tables = how;
  with_tables.q_table = handle(q_table);
  with_tables.k_table = handle(k_table);
  return next.attention(q, k, v, with_tables);
}

}  // namespace kinora::core
