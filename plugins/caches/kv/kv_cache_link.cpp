#include "plugins/caches/kv/kv_cache_link.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace kinora {
namespace {

bool is_same(const Tensor& a, const Tensor& b) {
  return a.defined() && a.data<char>() == b.data<char>() && a.sizes() == b.sizes();
}

// INDEX of each token of a table.
std::vector<int64_t> indices_of(const Tensor& table) {
  return numbers_of(op("aten::select", "int", {table[0], 1, KINORA_TOKEN_INDEX}));
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

Tensor cloned(const Tensor& t) { return op("aten::clone", "", {t}); }

kinora_rope rotation_of(const kinora_attention& how) {
  if (!how.rope)
    throw Error(
        KINORA_ERROR_UNSUPPORTED,
        "the model does not describe its rotary positions, which positions = \"relative\" turns further; set "
        "positions = \"absolute\"");
  return detail::known(how.rope, "a rotation");
}

constexpr const char* kForm = "kv/1";
constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

void require_form(bool is_right, const std::string& name) {
  if (!is_right)
    throw Error(KINORA_ERROR_INVALID,
                "restore: '" + name + "' is not what a cache/kv of this version and " +
                    "with these options saves; give all tensors of one save(), unchanged");
}

const Tensor& saved_tensor(const KvCacheLink::Saved& saved, const std::string& name, int64_t dims) {
  const auto it = saved.find(name);
  require_form(it != saved.end() && it->second.defined() && it->second.dim() == dims, name);
  return it->second;
}

// The branch of this number, written as save() writes it.
uint32_t branch_number(const std::string& text, const std::string& name) {
  uint32_t out = KINORA_BRANCH_ALL;  // and it stays that if the text is no number, or too large
  std::from_chars(text.data(), text.data() + text.size(), out);
  require_form(out != KINORA_BRANCH_ALL && std::to_string(out) == text, name);
  return out;
}

}  // namespace

KvCacheLink::KvCacheLink(const KvOptions& options, int64_t tokens)
    : Link(KINORA_LEVEL_CACHE),
      options_(options),
      tokens_(tokens),
      coding_(Coding::of(options.store, options.smooth)),
      relative_(options.positions == "relative"),
      has_means_(coding_.smooth == Smooth::chunk) {
  skip_inherited<KvCacheLink>();
  if (options.capacity > 0 && options.window > 0)
    throw Error(KINORA_ERROR_INVALID, "capacity counts latent frames and window tokens; give one of them");
  if (options.sink > 0 && options.sink >= options.capacity)
    throw Error(KINORA_ERROR_INVALID, "sink = " + std::to_string(options.sink) +
                                          ": capacity = " + std::to_string(options.capacity) +
                                          " includes it; give a larger capacity");
}

int64_t KvCacheLink::tokens(uint64_t session, uint32_t branch) const {
  const auto s = sessions_.find(session);
  if (s == sessions_.end()) return 0;
  const auto b = s->second.branches.find(branch);
  return b == s->second.branches.end() ? 0 : static_cast<int64_t>(b->second.index.size());
}

int64_t KvCacheLink::bytes(uint64_t session) const {
  int64_t n = 0;
  if (const auto s = sessions_.find(session); s != sessions_.end())
    for (const auto& [number, b] : s->second.branches) {
      n += b.of_text.bytes();
      for (const auto& [name, kept] : b.attentions) n += kept.bytes();
    }
  return n;
}

void KvCacheLink::reset(uint64_t session, uint32_t branch) {
  const auto s = sessions_.find(session);
  if (s == sessions_.end()) return;
  if (branch == KINORA_BRANCH_ALL)
    sessions_.erase(s);
  else
    s->second.branches.erase(branch);
}

void KvCacheLink::trim(uint64_t session, uint32_t branch, int64_t tokens) {
  const auto s = sessions_.find(session);
  if (s == sessions_.end()) return;
  for (auto& [number, b] : s->second.branches) {
    if (branch != KINORA_BRANCH_ALL && branch != number) continue;
    std::vector<int64_t> rows;
    for (size_t row = 0; row < b.index.size(); ++row)
      if (b.index[row] < tokens) rows.push_back(static_cast<int64_t>(row));
    b.table = rows_of(b.table, rows);
    b.index = taken(b.index, rows);
    if (rows.empty()) b.attentions.clear();
    if (relative_) b.closed = taken(b.closed, rows);
    if (has_means_) b.chunks = taken(b.chunks, rows);
  }
  s->second.forget_forward();
  if (branch == KINORA_BRANCH_ALL) s->second.unpin({tokens, kEnd});
}

Range KvCacheLink::range(const char* call, int64_t first, int64_t count) {
  if (first < 0 || count < 1)
    throw Error(KINORA_ERROR_INVALID, std::string(call) + ": " + std::to_string(count) +
                                          " tokens from token " + std::to_string(first) +
                                          "; give at least one, from 0 on");
  return {first, count > kEnd - first ? kEnd : first + count};
}

void KvCacheLink::pin(uint64_t session, int64_t first, int64_t count) {
  const Range added = range("pin", first, count);
  auto& s = sessions_[session];
  s.pinned.push_back(added);
  s.forget_forward();
}

void KvCacheLink::unpin(uint64_t session, int64_t first, int64_t count) {
  const Range range = KvCacheLink::range("unpin", first, count);
  if (const auto s = sessions_.find(session); s != sessions_.end()) s->second.unpin(range);
}

void KvCacheLink::Session::unpin(const Range& range) {
  std::vector<Range> left;
  for (const Range& p : pinned)
    for (const Range rest :
         {Range{p.first, std::min(p.end, range.first)}, Range{std::max(p.first, range.end), p.end}})
      if (rest.first < rest.end) left.push_back(rest);
  pinned = std::move(left);
  forget_forward();
}

void KvCacheLink::Session::forget_forward() {
  for (auto& [number, b] : branches) b.now = {};
}

void KvCacheLink::copy(uint64_t from, uint64_t to) {
  if (from != to) restore(to, save(from));
}

KvCacheLink::Saved KvCacheLink::save(uint64_t session) const {
  const auto found = sessions_.find(session);
  const Session none{};
  const Session& s = found == sessions_.end() ? none : found->second;
  std::vector<int64_t> pinned;
  for (const auto& p : s.pinned) pinned.insert(pinned.end(), {p.first, p.end});
  Saved out;
  out[kForm] = rows_tensor(pinned, {}).reshape({static_cast<int64_t>(s.pinned.size()), 2});
  for (const auto& [number, b] : s.branches) {
    if (b.index.empty()) continue;
    const std::string branch = std::to_string(number);
    out["table." + branch] = b.table;
    if (relative_) out["closed." + branch] = rows_tensor(b.closed, {});
    if (has_means_) out["chunks." + branch] = rows_tensor(b.chunks, {});
    for (const auto& [name, kept] : b.attentions) {
      const std::string end = branch + "." + name;
      const auto add = [&](const KeptRows& rows, const char* more) {
        const auto [k, v] = rows.get(b.index, b.index.size());
        out[std::string("k") + more + "." + end] = k;
        out[std::string("v") + more + "." + end] = v;
      };
      add(kept.rows, "");
      if (coding_.store == Store::fp8) add(kept.scales, "_scales");
      if (!has_means_) continue;
      std::vector<Tensor> means;
      for (const int64_t chunk : std::set<int64_t>(b.chunks.begin(), b.chunks.end()))
        means.push_back(kept.means.at(chunk));
      out["k_means." + end] = op("aten::cat", "", {means, 1});
    }
  }
  return out;
}

StoredKv KvCacheLink::restored_kv(const Saved& saved, const std::string& end, const Branch& b,
                                  std::set<std::string>& names) const {
  const auto n = static_cast<int64_t>(b.index.size());
  const Tensor& keys = saved_tensor(saved, "k" + end, 4);
  const int64_t B = keys.size(0), H = keys.size(2);
  require_form(b.table.size(0) == 1 || b.table.size(0) == B, "k" + end);
  require_form((keys.dtype() == KINORA_DTYPE_UINT8) == (coding_.store != Store::as_given), "k" + end);
  const auto rows = [&](const std::string& more) {
    const std::string of_k = "k" + more + end, of_v = "v" + more + end;
    const Tensor &k = saved_tensor(saved, of_k, 4), &v = saved_tensor(saved, of_v, 4);
    for (const Tensor* t : {&k, &v})
      require_form(t->size(0) == B && t->size(1) == n && t->size(2) == H, of_k);
    names.insert({of_k, of_v});
    return KeptRows(b.index, {cloned(k), cloned(v)});
  };
  StoredKv out{rows(""), coding_.store == Store::fp8 ? rows("_scales") : KeptRows(), {}};
  if (!has_means_) return out;
  const std::string name = "k_means" + end;
  const Tensor& means = saved_tensor(saved, name, 4);
  const std::set<int64_t> chunks(b.chunks.begin(), b.chunks.end());
  require_form(means.dtype() == KINORA_DTYPE_BFLOAT16 && means.size(0) == B && means.size(2) == H &&
                   means.size(1) == static_cast<int64_t>(chunks.size()),
               name);
  int64_t at = 0;
  for (const int64_t chunk : chunks) out.means[chunk] = cloned(means.narrow(1, at++, 1));
  names.insert(name);
  return out;
}

KvCacheLink::Branch KvCacheLink::restored_branch(const Saved& saved, const std::string& branch,
                                                 std::set<std::string>& names) const {
  Branch b;
  const std::string of_table = "table." + branch;
  const Tensor& table = saved_tensor(saved, of_table, 3);
  const int64_t n = table.size(1);
  require_form(n > 0 && table.dtype() == KINORA_DTYPE_INT64 && table.size(2) >= KINORA_TOKEN_COLUMNS,
               of_table);
  names.insert(of_table);
  b.table = cloned(table);
  b.index = indices_of(b.table);
  const auto numbers = [&](const char* what) {
    const std::string name = what + branch;
    const auto out = numbers_of(saved_tensor(saved, name, 1));
    require_form(out.size() == b.index.size(), name);
    names.insert(name);
    return out;
  };
  if (relative_) b.closed = numbers("closed.");
  if (has_means_) b.chunks = numbers("chunks.");
  const std::string keys = "k." + branch + ".";
  for (auto one = saved.lower_bound(keys); one != saved.end() && one->first.rfind(keys, 0) == 0; ++one)
    b.attentions.emplace(one->first.substr(keys.size()), restored_kv(saved, one->first.substr(1), b, names));
  return b;
}

KvCacheLink::Session KvCacheLink::restored(const Saved& saved) const {
  Session s;
  const Tensor& ranges = saved_tensor(saved, kForm, 2);
  const auto pinned = numbers_of(ranges);
  require_form(ranges.size(1) == 2, kForm);
  for (size_t i = 0; i < pinned.size(); i += 2) s.pinned.push_back({pinned[i], pinned[i + 1]});
  std::set<std::string> names{kForm};
  for (auto at = saved.lower_bound("table."); at != saved.end() && at->first.rfind("table.", 0) == 0; ++at) {
    const std::string branch = at->first.substr(6);
    Branch& to = s.branches[branch_number(branch, at->first)];
    to = restored_branch(saved, branch, names);
  }
  for (const auto& [name, tensor] : saved) require_form(names.count(name) != 0, name);
  for (const auto& [number, b] : s.branches)
    require_form(!b.attentions.empty(), "table." + std::to_string(number));
  return s;
}

void KvCacheLink::restore(uint64_t session, const Saved& saved) { sessions_[session] = restored(saved); }

int64_t KvCacheLink::room(const Session& s) const {
  if (options_.window == 0) return tokens_;
  int64_t most = options_.window;
  for (const auto& p : s.pinned) most += std::min(p.end - p.first, tokens_);
  return std::min(tokens_, most + most / 4 + 1);  // as much more as KeptRows would allocate
}

Bounds KvCacheLink::bounds(const Tensor& table) const {
  if (options_.capacity == 0) return {options_.window};
  const auto frames = numbers_of(op("aten::select", "int", {table[0], 1, KINORA_TOKEN_FRAME}));
  const auto of_a_frame =
      static_cast<int64_t>(frames.size() / std::set<int64_t>(frames.begin(), frames.end()).size());
  return {0, options_.capacity * of_a_frame, options_.sink * of_a_frame};
}

// Runs once per forward, not per attention: on a GPU it waits for the device, and one table for all
// attentions needs only one visibility plan.
void KvCacheLink::step(const Session& s, Branch& b, const Tensor& table, bool read_only,
                       const TimeAxis& axis) const {
  if (is_same(b.now.from, table) && b.now.read_only == read_only) {
    if (b.now.axis == axis) return;
    throw Error(KINORA_ERROR_UNSUPPORTED, "its positions in time are not those of the attentions before it");
  }
  const auto all = indices_of(table);
  std::vector<int64_t> real;
  for (size_t row = 0; row < all.size(); ++row)
    if (all[row] >= 0) real.push_back(static_cast<int64_t>(row));
  if (real.empty()) throw Error(KINORA_ERROR_INVALID, "KV cache: a forward has padding only");
  const auto fresh = taken(all, real);
  const Tensor rows = real.size() == all.size() ? Tensor() : rows_tensor(real, table);
  const Tensor added = rows.defined() ? op("aten::index_select", "", {table, 1, rows}) : table;
  const auto stay = staying(b.index, fresh, bounds(added), s.pinned);
  const Tensor before = stay.empty() ? Tensor() : rows_of(b.table, stay);
  if (before.defined() && before.size(0) != added.size(0))
    throw Error(KINORA_ERROR_INVALID, "KV cache: tables of " + std::to_string(before.size(0)) +
                                          " samples are kept, this forward has one of " +
                                          std::to_string(added.size(0)));
  const Tensor seen = before.defined() ? op("aten::cat", "", {std::vector<Tensor>{before, added}, 1}) : added;
  std::vector<int64_t> closed;
  if (relative_) closed = closed_before(b, stay, fresh, added, axis);
  std::vector<int64_t> chunks;
  if (has_means_) {
    chunks = taken(b.chunks, stay);
    chunks.insert(chunks.end(), fresh.size(), *std::min_element(fresh.begin(), fresh.end()));
  }
  b.now = {table,  read_only,        rows,  seen, taken(b.index, stay), stay.size(), axis,
           closed, turns_of(closed), chunks};
  b.now.index.insert(b.now.index.end(), fresh.begin(), fresh.end());
  if (read_only) return;
  b.table = b.now.table;
  b.index = b.now.index;
  b.closed = closed;
  b.chunks = chunks;
}

// A position is closed when its last token is evicted: when neither a token that stays nor one of the forward has it.
std::vector<int64_t> KvCacheLink::closed_before(const Branch& b, const std::vector<int64_t>& stay,
                                                const std::vector<int64_t>& fresh, const Tensor& added,
                                                const TimeAxis& axis) {
  const int64_t first = *std::min_element(fresh.begin(), fresh.end());
  const auto own = times_of(added, axis);
  const auto times = b.index.empty() ? std::vector<int64_t>() : times_of(b.table, axis);
  std::set<int64_t> there(own.begin(), own.end()), gone;
  for (const int64_t time : taken(times, stay)) there.insert(time);
  int64_t before = 0;  // of the tokens of the forward
  for (size_t row = 0; row < times.size(); ++row) {
    if (b.index[row] <= first) before = std::max(before, b.closed[row]);
    if (b.index[row] >= first) continue;  // replaced, not evicted
    if (there.count(times[row]) == 0) gone.insert(times[row]);
  }
  std::vector<int64_t> out;
  for (const int64_t row : stay) {
    const auto at = static_cast<size_t>(row);
    out.push_back(b.closed[at] + std::distance(gone.begin(), gone.lower_bound(times[at])));
  }
  out.insert(out.end(), fresh.size(), before + static_cast<int64_t>(gone.size()));
  return out;
}

KvCacheLink::Seen KvCacheLink::seen(const std::string& name, const Tensor& k, const Tensor& v,
                                    const kinora_attention& how) {
  const kinora_pass now = pass();
  auto& session = sessions_[now.session];
  auto& b = session.branches[now.branch];
  const kinora_rope rope = relative_ ? rotation_of(how) : kinora_rope{};
  step(session, b, borrow<Tensor>(how.k_table), now.read_only != 0, relative_ ? time_axis(rope) : TimeAxis{});
  const auto real = [&](const Tensor& x) {
    return b.now.rows.defined() ? op("aten::index_select", "", {x, 1, b.now.rows}) : x;
  };
  const SeenTokens tokens{b.now.index, b.now.kept, b.now.chunks, now.read_only != 0, room(session)};
  StoredKv::Seen all = b.attentions[name].see(coding_, tokens, real(k), real(v));
  if (b.now.turns.size() < 2) return {all.kv, all.scales, b.now.table};
  if (all.scales.k.defined())
    all.kv = {decoded({all.kv.k, all.scales.k}, k.dtype()).to(k.dtype()),
              decoded({all.kv.v, all.scales.v}, v.dtype()).to(v.dtype())};
  return {{turned(all.kv.k, b.now.turns, rope), all.kv.v}, {}, b.now.table};
}

Tensor KvCacheLink::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                              const kinora_attention& how) {
  // Text, which all tokens share, and frames that see themselves alone.
  if (!how.kv_seq || !how.k_table || how.over == KINORA_OVER_SPACE) return next.attention(q, k, v, how);
  const std::string name = how.name ? how.name : "";
  Seen all;
  try {
    if (GradMode::enabled() && (k.requires_grad() || v.requires_grad()))
      throw Error(KINORA_ERROR_INVALID, "a KV cache is for passes without gradients");
    all = seen(name, k, v, how);
  } catch (const Error& e) {
    throw Error(e.code(), "attention '" + name + "': " + e.what());
  }
  auto longer = how;
  longer.k_table = handle(all.table);
  if (!all.scales.k.defined()) return next.attention(q, all.kv.k, all.kv.v, longer);
  longer.needs |= KINORA_ATTENTION_CODES;
  longer.k_scales = handle(all.scales.k);
  longer.v_scales = handle(all.scales.v);
  return next.attention(q, e4m3(all.kv.k), e4m3(all.kv.v), longer);
}

kinora_param KvCacheLink::parameter(const kinora_param_spec& spec) {
  const kinora_param p = next.parameter(spec);
  if (spec.role == KINORA_ROLE_COLUMN) columns_.insert(p);
  return p;
}

// A layer whose input all tokens share and whose outputs are heads projects the text. Layers of the timestep are WHOLE.
Tensor KvCacheLink::linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  if (seq != 0 || !columns_.count(w) || GradMode::enabled()) return next.linear(x, w, b, seq);
  const kinora_pass now = pass();
  SharedLinears& of_text = sessions_[now.session].branches[now.branch].of_text;
  Tensor out = of_text.find(w, x);
  if (!out.defined()) of_text.put(w, x, out = next.linear(x, w, b, seq));
  return out;
}

}  // namespace kinora
