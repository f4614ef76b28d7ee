// The rules of a layout, and the enumeration of all layouts that follow them. A rule's message has the
// numbers that break it and the required values.
#include <algorithm>
#include <utility>

#include "apps/planner/layout.hpp"

namespace kinora::core::plan {
namespace {

using Rules = std::vector<std::string>;

void of_mesh(const Layout& l, const Problem& p, Rules& out) {
  if (l.size() != p.cluster.size())
    out.push_back(fmt::format("pp*dp*fsdp*cp*tp = {}, the cluster has {} GPUs; they must be equal", l.size(),
                              p.cluster.size()));
  if (l.tp > p.cluster.per_node || p.cluster.per_node % l.tp)
    out.push_back(fmt::format("tp = {} does not divide the {} GPUs of a node; its ranks must share one", l.tp,
                              p.cluster.per_node));
  if (p.batch % (l.data() * l.micro))
    out.push_back(
        fmt::format("batch = {} is not divisible by dp*fsdp*micro = {}", p.batch, l.data() * l.micro));
}

// One message for each kind of branch that tp cannot divide.
void of_branches(const Layout& l, const Shape& s, Rules& out) {
  bool attention = false, mlp = false;
  for (const Branch& b : s.branches) {
    for (const Attention& a : b.attentions)
      if ((a.heads % l.tp || a.kv_heads % l.tp) && !std::exchange(attention, true))
        out.push_back(fmt::format("heads = {} (keys and values: {}) are not divisible by tp = {}", a.heads,
                                  a.kv_heads, l.tp));
    if (b.attentions.empty() && b.inner % l.tp && !std::exchange(mlp, true))
      out.push_back(fmt::format("the MLP's {} channels are not divisible by tp = {}", b.inner, l.tp));
  }
}

void of_model(const Layout& l, const Problem& p, Rules& out) {
  const Shape& s = p.shape;
  of_branches(l, s, out);
  if (s.blocks() < l.pp * l.virtual_stages)
    out.push_back(fmt::format("blocks = {} (layers, embedding and head) are fewer than pp*virtual = {}",
                              s.blocks(), l.pp * l.virtual_stages));
  if (l.pp == 1 && l.virtual_stages > 1) out.push_back("virtual stages need pp above 1");
  if (l.virtual_stages > 1 && l.schedule != Schedule::interleaved)
    out.push_back(fmt::format("virtual = {} needs schedule=interleaved", l.virtual_stages));
  if (l.pp > 1 && l.virtual_stages == 1 && l.schedule == Schedule::interleaved)
    out.push_back("schedule=interleaved needs virtual above 1");
  if (l.pp > 1 && l.schedule == Schedule::interleaved && p.batch % (l.data() * l.micro) == 0 &&
      l.accumulate(p.batch) % l.pp)
    out.push_back(fmt::format("interleaved takes microbatches in groups of pp = {}; a step has {}", l.pp,
                              l.accumulate(p.batch)));
}

void of_sequence(const Layout& l, Rules& out) {
  if (l.cp > 1 && l.sequence == Sequence::two_d && l.cp % l.ulysses)
    out.push_back(fmt::format("cp-2d: ulysses = {} must divide cp = {}", l.ulysses, l.cp));
}

std::vector<int64_t> divisors(int64_t n, int64_t most) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) out.push_back(d);
  return out;
}

// Possible strategies of cp, each with its degree of Ulysses.
std::vector<std::pair<Sequence, int64_t>> sequences(const Layout& l, const Problem& p) {
  if (p.shape.teacher_forcing && l.cp > 1) return {{Sequence::balanced, 1}};
  if (l.cp == 1) return {{Sequence::ring, 1}};
  std::vector<std::pair<Sequence, int64_t>> out{{Sequence::ring, 1}, {Sequence::ulysses, 1}};
  if (p.shape.factorised()) out.emplace_back(Sequence::hybrid, 1);
  // All-to-all inside a node, the ring across nodes.
  const int64_t inside = std::max<int64_t>(1, p.cluster.per_node / l.tp);
  for (const int64_t u : divisors(l.cp, inside))
    if (u > 1 && u < l.cp) out.emplace_back(Sequence::two_d, u);
  return out;
}

class Each {
 public:
  Each(const Problem& p, const std::function<void(const Layout&)>& give) : p_(p), give_(give) {}

  void all() {
    const int64_t n = p_.cluster.size();
    Layout l;
    for (l.tp = 1; l.tp <= std::min(n, p_.cluster.per_node); ++l.tp) {
      if (n % l.tp || p_.shape.heads() % l.tp || p_.cluster.per_node % l.tp) continue;
      for (const int64_t cp : divisors(n / l.tp, p_.shape.tokens())) {
        l.cp = cp;
        for (const int64_t pp : divisors(n / l.tp / cp, p_.shape.layers)) {
          l.pp = pp;
          const int64_t data = n / l.tp / cp / pp;
          if (p_.batch % data == 0) of_data(l, data);
        }
      }
    }
  }

 private:
  void of_data(Layout l, int64_t data) {
    for (const int64_t fsdp : divisors(data, data)) {
      l.fsdp = fsdp, l.dp = data / fsdp;
      for (l.stage = fsdp > 1 ? 1 : 3; l.stage <= 3; ++l.stage)
        for (l.micro = 1; l.micro <= 64 && p_.batch % (data * l.micro) == 0; l.micro *= 2) of_schedule(l);
    }
  }
  void of_schedule(Layout l) {
    for (const int64_t v : {1, 2, 4}) {
      if (v > 1 && l.pp == 1) break;
      l.virtual_stages = v;
      l.schedule = v > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
      for (const auto& [sequence, ulysses] : sequences(l, p_)) {
        l.sequence = sequence, l.ulysses = ulysses;
        if (broken_rules(l, p_).empty() && vanities(l, p_).empty()) give_(l);
      }
    }
  }

  const Problem& p_;
  const std::function<void(const Layout&)>& give_;
};

}  // namespace

std::vector<std::string> broken_rules(const Layout& l, const Problem& p) {
  Rules out;
  of_mesh(l, p, out);
  of_model(l, p, out);
  of_sequence(l, out);
  if (!out.empty() || !p.refusal) return out;  // asking builds a network
  if (std::string why = p.refusal(l); !why.empty()) out.push_back(std::move(why));
  return out;
}

std::vector<std::string> vanities(const Layout& l, const Problem& p) {
  Rules out;
  if (l.cp == 1) return out;
  const Shape& s = p.shape;
  const int64_t heads = s.heads() / l.tp, exchanging = l.sequence == Sequence::two_d ? l.ulysses : l.cp;
  const bool by_heads = l.sequence != Sequence::ring && l.sequence != Sequence::hybrid;
  if (l.cp * l.tp > s.tokens())
    out.push_back(fmt::format("cp*tp = {} exceeds the {} tokens: some ranks only have padding", l.cp * l.tp,
                              s.tokens()));
  if (by_heads && exchanging > heads)
    out.push_back(fmt::format("{}: {} ranks exchange heads/tp = {} heads, so some get only zeros; take {}",
                              name_of(l.sequence), exchanging, heads,
                              l.sequence == Sequence::two_d ? "a smaller ulysses" : "cp-2d"));
  if (l.sequence == Sequence::hybrid && !s.factorised())
    out.push_back(
        fmt::format("stdit-hybrid requires spatial and temporal attention, which {} lacks", s.model));
  if (l.sequence == Sequence::hybrid && s.factorised() && (s.frames < l.cp || s.patches < l.cp))
    out.push_back(
        fmt::format("stdit-hybrid: cp = {} is above the {} frames or {} patches", l.cp, s.frames, s.patches));
  if (l.sequence == Sequence::balanced && !s.teacher_forcing)
    out.push_back(
        "balanced-sp balances the clean and the noisy copy of teacher forcing; without teacher forcing it "
        "equals cp-ulysses");
  if (l.sequence == Sequence::balanced && s.teacher_forcing && s.frames % (l.cp * s.block_frames))
    out.push_back(fmt::format("balanced-sp: {} latent frames are not divisible by cp * {} frames a block",
                              s.frames, s.block_frames));
  return out;
}

void each_layout(const Problem& p, const std::function<void(const Layout&)>& give) { Each(p, give).all(); }

}  // namespace kinora::core::plan
