#include "plugins/caches/kv/kv_cache_link.hpp"

#include <algorithm>

namespace kinora {
namespace {

bool is_same(const Tensor& a, const Tensor& b) {
  return a.defined() && a.data<char>() == b.data<char>() && a.sizes() == b.sizes();
}

// INDEX of each token of a table. On a GPU it waits for the device.
std::vector<int64_t> indices_of(const Tensor& table) {
  const Tensor column = op("aten::select", "int", {table[0], 1, KINORA_TOKEN_INDEX});
  const Tensor here = op("aten::to", "device", {column, -1, KINORA_DTYPE_INT64}).contiguous();
  const auto* first = here.data<int64_t>();
  return {first, first + here.numel()};
}

// These rows of a table, in ascending order; undefined if there are none.
Tensor rows_of(const Tensor& table, const std::vector<int64_t>& rows) {
  if (rows.empty()) return {};
  const auto n = static_cast<int64_t>(rows.size());
  if (rows.back() == n - 1) return table.narrow(1, 0, n);
  return op("aten::index_select", "", {table, 1, rows_tensor(rows, table)});
}

std::vector<int64_t> taken(const std::vector<int64_t>& from, const std::vector<int64_t>& rows) {
  std::vector<int64_t> out;
  for (const int64_t row : rows) out.push_back(from[static_cast<size_t>(row)]);
  return out;
}

}  // namespace

KvCacheLink::KvCacheLink(int64_t window, int64_t tokens)
    : Link(KINORA_LEVEL_CACHE), window_(window), tokens_(tokens) {
  skip_inherited<KvCacheLink>();
}

int64_t KvCacheLink::tokens(uint32_t branch) const {
  const auto it = branches_.find(branch);
  return it == branches_.end() ? 0 : static_cast<int64_t>(it->second.index.size());
}

int64_t KvCacheLink::bytes() const {
  int64_t n = 0;
  for (const auto& [number, b] : branches_)
    for (const auto& [name, rows] : b.attentions) n += rows.bytes();
  return n;
}

void KvCacheLink::reset(uint32_t branch) {
  if (branch != KINORA_BRANCH_ALL) {
    branches_.erase(branch);
    return;
  }
  branches_.clear();
  pinned_.clear();
}

void KvCacheLink::trim(uint32_t branch, int64_t tokens) {
  for (auto& [number, b] : branches_) {
    if (branch != KINORA_BRANCH_ALL && branch != number) continue;
    std::vector<int64_t> rows;
    for (size_t row = 0; row < b.index.size(); ++row)
      if (b.index[row] < tokens) rows.push_back(static_cast<int64_t>(row));
    b.table = rows_of(b.table, rows);
    b.index = taken(b.index, rows);
    b.kept = rows.size();
    b.from = {};  // the next forward is not this one, even if its table has the same address
  }
  if (branch != KINORA_BRANCH_ALL) return;
  for (auto& p : pinned_) p.count = std::min(p.count, tokens - p.first);
  pinned_.erase(std::remove_if(pinned_.begin(), pinned_.end(), [](const Pinned& p) { return p.count <= 0; }),
                pinned_.end());
}

void KvCacheLink::pin(int64_t first, int64_t count) {
  if (first < 0 || count < 1)
    throw Error(KINORA_ERROR_INVALID, "pin: " + std::to_string(count) + " tokens from token " +
                                          std::to_string(first) + "; pin at least one, from 0 on");
  pinned_.push_back({first, count});
}

bool KvCacheLink::is_pinned(int64_t index) const {
  return std::any_of(pinned_.begin(), pinned_.end(),
                     [&](const Pinned& p) { return index >= p.first && index - p.first < p.count; });
}

int64_t KvCacheLink::room() const {
  if (window_ == 0) return tokens_;
  int64_t most = window_;
  for (const auto& p : pinned_) most += std::min(p.count, tokens_);
  return std::min(tokens_, most + most / 4 + 1);  // as much more as KeptRows would allocate
}

std::vector<int64_t> KvCacheLink::staying(const Branch& b, const std::vector<int64_t>& fresh) const {
  const int64_t first = *std::min_element(fresh.begin(), fresh.end());
  int64_t oldest = 0;  // INDEX from which on a token stays that is not pinned
  if (window_ > 0) {
    std::vector<int64_t> loose;
    for (const int64_t index : b.index)
      if (index < first && !is_pinned(index)) loose.push_back(index);
    const auto own = std::count_if(fresh.begin(), fresh.end(), [&](int64_t i) { return !is_pinned(i); });
    const auto stay = static_cast<size_t>(std::max<int64_t>(window_ - own, 0));
    std::sort(loose.begin(), loose.end());
    if (stay < loose.size()) oldest = stay == 0 ? first : loose[loose.size() - stay];
  }
  std::vector<int64_t> out;
  for (size_t row = 0; row < b.index.size(); ++row)
    if (const int64_t index = b.index[row]; index < first && (index >= oldest || is_pinned(index)))
      out.push_back(static_cast<int64_t>(row));
  return out;
}

// Runs once per forward, not per attention: on a GPU it waits for the device, and one table for all
// attentions needs only one visibility plan.
void KvCacheLink::step(Branch& b, const Tensor& table) const {
  if (is_same(b.from, table)) return;
  const auto all = indices_of(table);
  std::vector<int64_t> real;
  for (size_t row = 0; row < all.size(); ++row)
    if (all[row] >= 0) real.push_back(static_cast<int64_t>(row));
  if (real.empty()) throw Error(KINORA_ERROR_INVALID, "KV cache: a forward has padding only");
  const auto fresh = taken(all, real);
  const Tensor rows = real.size() == all.size() ? Tensor() : rows_tensor(real, table);
  const Tensor added = rows.defined() ? op("aten::index_select", "", {table, 1, rows}) : table;
  const auto stay = staying(b, fresh);
  const Tensor before = stay.empty() ? Tensor() : rows_of(b.table, stay);
  if (before.defined() && before.size(0) != added.size(0))
    throw Error(KINORA_ERROR_INVALID, "KV cache: tables of " + std::to_string(before.size(0)) +
                                          " samples are kept, this forward has one of " +
                                          std::to_string(added.size(0)));
  b.table = before.defined() ? op("aten::cat", "", {std::vector<Tensor>{before, added}, 1}) : added;
  b.index = taken(b.index, stay);
  b.index.insert(b.index.end(), fresh.begin(), fresh.end());
  b.kept = stay.size();
  b.rows = rows;
  b.from = table;
}

Tensor KvCacheLink::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                              const kinora_attention& how) {
  const auto table = borrow<Tensor>(how.k_table);
  if (!how.kv_seq || !table.defined()) return next.attention(q, k, v, how);  // shared keys: text
  const std::string name = how.name ? how.name : "";
  if (GradMode::enabled() && (k.requires_grad() || v.requires_grad()))
    throw Error(KINORA_ERROR_INVALID, "attention '" + name + "': a KV cache is for passes without gradients");
  auto& b = branches_[pass().branch];
  step(b, table);
  const auto real = [&](const Tensor& x) {
    return b.rows.defined() ? op("aten::index_select", "", {x, 1, b.rows}) : x;
  };
  KeptRows::Pair all;
  try {
    all = b.attentions[name].put(b.index, b.kept, real(k), real(v), room());
  } catch (const Error& e) {
    throw Error(e.code(), "attention '" + name + "': " + e.what());
  }
  auto longer = how;
  longer.k_table = handle(b.table);
  return next.attention(q, all.k, all.v, longer);
}

}  // namespace kinora
