#include "plugins/caches/kv/kept_rows.hpp"

#include <algorithm>

#include "kinora/cache.hpp"

namespace kinora {
namespace {

constexpr int64_t kTokens = 1;  // the dimension of tokens

bool has_rows_of(const Tensor& all, const Tensor& x) {
  if (!all.defined() || all.dtype() != x.dtype()) return false;
  const auto a = all.sizes(), b = x.sizes();
  return a[0] == b[0] && a[2] == b[2] && a[3] == b[3];
}

void write(const Tensor& all, int64_t row, const Tensor& x) {
  op("aten::copy_", "", {all.narrow(kTokens, row, x.size(kTokens)), x});
}

}  // namespace

Tensor rows_tensor(const std::vector<int64_t>& rows, const Tensor& like) {
  const auto n = static_cast<int64_t>(rows.size());
  kinora_tensor h = nullptr;
  check(tensors_api().empty(&n, 1, KINORA_DTYPE_INT64, nullptr, &h));
  const Tensor out = Tensor::adopt(h);
  std::copy(rows.begin(), rows.end(), out.data<int64_t>());
  if (!like.defined()) return out;
  const auto on = like.info();
  if (on.device_type == KINORA_DL_CPU) return out;
  return op("aten::to", "device", {out, on.device_id, KINORA_DTYPE_INT64});
}

std::vector<int64_t> numbers_of(const Tensor& t) {
  const Tensor here = op("aten::to", "device", {t, -1, KINORA_DTYPE_INT64}).contiguous();
  const auto* first = here.data<int64_t>();
  return {first, first + here.numel()};
}

std::string shape_text(const Tensor& t) {
  std::string out;
  for (const int64_t n : t.sizes()) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return "[" + out + "]";
}

int64_t KeptRows::bytes() const { return bytes_of(k_) + bytes_of(v_); }

bool KeptRows::is_alike(const Tensor& k, const Tensor& v) const {
  return has_rows_of(k_, k) && has_rows_of(v_, v);
}

void KeptRows::require_alike(size_t kept, const Tensor& k, const Tensor& v) const {
  if (kept > 0 && k_.defined() && !is_alike(k, v))
    throw Error(KINORA_ERROR_INVALID, "keys " + shape_text(k_) + " are kept, this forward adds " +
                                          shape_text(k) + "; reset the session between two videos");
}

std::vector<int64_t> KeptRows::rows_of(const std::vector<int64_t>& index, size_t kept) const {
  std::vector<int64_t> rows;
  for (size_t row = 0, i = 0; i < kept; ++i, ++row) {
    while (row < index_.size() && index_[row] != index[i]) ++row;
    if (row == index_.size())
      throw Error(KINORA_ERROR_INVALID, "token " + std::to_string(index[i]) +
                                            " precedes this forward and is not in the cache; reset it");
    rows.push_back(first_ + static_cast<int64_t>(row));
  }
  return rows;
}

KeptRows::Pair KeptRows::get(const std::vector<int64_t>& index, size_t kept) const {
  const auto rows = rows_of(index, kept);
  if (rows.empty()) return {};
  const auto n = static_cast<int64_t>(kept);
  if (rows.back() - rows.front() + 1 == n)
    return {k_.narrow(kTokens, rows.front(), n), v_.narrow(kTokens, rows.front(), n)};
  const Tensor picked = rows_tensor(rows, k_);
  const auto of = [&](const Tensor& all) { return op("aten::index_select", "", {all, kTokens, picked}); };
  return {of(k_), of(v_)};
}

KeptRows::Pair KeptRows::with(const std::vector<int64_t>& index, size_t kept, const Tensor& k,
                              const Tensor& v) const {
  require_alike(kept, k, v);
  const Pair before = get(index, kept);
  if (!before.k.defined()) return {k, v};
  const auto joined = [](const Tensor& a, const Tensor& b) {
    return op("aten::cat", "", {std::vector<Tensor>{a, b}, kTokens});
  };
  return {joined(before.k, k), joined(before.v, v)};
}

// Evicted tokens are mostly the oldest, behind a few pinned ones. The last run of kept rows stays where it
// is, and the rows before it move up to it: a token then costs the pinned rows, not the whole window.
void KeptRows::keep(const std::vector<int64_t>& index, size_t kept) {
  auto rows = rows_of(index, kept);
  index_.assign(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(kept));
  if (kept == 0) {
    first_ = 0;
    return;
  }
  size_t stay = kept - 1;  // from here on the rows are adjacent
  while (stay > 0 && rows[stay - 1] + 1 == rows[stay]) --stay;
  const int64_t from = rows[stay] - static_cast<int64_t>(stay);
  if (stay > 0) {
    rows.resize(stay);
    const Tensor moved = rows_tensor(rows, k_);
    for (const Tensor* all : {&k_, &v_})
      write(*all, from, op("aten::index_select", "", {*all, kTokens, moved}));
  }
  first_ = from;
}

// A quarter more than needed, so that a window is copied to the front once for each quarter of it.
void KeptRows::allocate(size_t kept, const Tensor& k, const Tensor& v, int64_t room) {
  const auto held = static_cast<int64_t>(kept), needed = held + k.size(kTokens);
  room = std::max(room, held > 0 ? needed + needed / 4 + 1 : needed);
  const auto larger = [&](const Tensor& all, const Tensor& x) {
    const std::vector<int64_t> shape{x.size(0), room, x.size(2), x.size(3)};
    kinora_tensor h = nullptr;
    check(tensors_api().empty(shape.data(), 4, x.dtype(), x.get(), &h));
    const Tensor out = Tensor::adopt(h);
    if (held > 0) write(out, 0, all.narrow(kTokens, first_, held));
    return out;
  };
  k_ = larger(k_, k);
  v_ = larger(v_, v);
  first_ = 0;
}

KeptRows::Pair KeptRows::put(const std::vector<int64_t>& index, size_t kept, const Tensor& k, const Tensor& v,
                             int64_t room) {
  require_alike(kept, k, v);
  keep(index, kept);
  const auto held = static_cast<int64_t>(kept), needed = held + k.size(kTokens);
  if (!is_alike(k, v) || first_ + needed > k_.size(kTokens)) allocate(kept, k, v, room);
  write(k_, first_ + held, k);
  write(v_, first_ + held, v);
  index_ = index;
  return {k_.narrow(kTokens, first_, needed), v_.narrow(kTokens, first_, needed)};
}

}  // namespace kinora
