#include "apps/planner/candidates.hpp"

#include <algorithm>

namespace kinora::core::plan {
namespace {

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

void each_layout(const Problem& p, const std::function<void(const Layout&)>& give) { Each(p, give).all(); }

}  // namespace kinora::core::plan
