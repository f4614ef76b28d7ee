#include "apps/planner/search.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "core/base/quantity.hpp"

namespace kinora::core::plan {
namespace {

// Caches block times: a block costs the same under all layouts with equal keys.
class Blocks {
 public:
  explicit Blocks(const Problem& p) : p_(p) {}
  const BlockTime& of(const Layout& l) {
    const auto key = std::tuple(l.tp, l.cp, l.micro, l.sequence, l.ulysses);
    auto it = known_.find(key);
    if (it == known_.end()) it = known_.emplace(key, block_time(l, p_)).first;
    return it->second;
  }

 private:
  const Problem& p_;
  std::map<std::tuple<int64_t, int64_t, int64_t, Sequence, int64_t>, BlockTime> known_;
};

struct Candidate {
  Layout layout;
  double seconds = 0;
};

bool simpler(const Layout& a, const Layout& b) {
  const auto axes = [](const Layout& l) {
    return std::tuple((l.pp > 1) + (l.fsdp > 1) + (l.cp > 1) + (l.tp > 1) + (l.dp > 1), l.virtual_stages,
                      l.stage, l.fsdp, l.cp, l.tp, l.pp);
  };
  return axes(a) < axes(b);
}

// The model cannot distinguish times within a thousandth: then the simpler layout is better.
bool better(const Candidate& a, const Candidate& b) {
  const auto rounded = [](double t) { return std::llround(std::log(t) * 1000); };
  const auto x = rounded(a.seconds), y = rounded(b.seconds);
  return x != y ? x < y : simpler(a.layout, b.layout);
}

// A mesh and a way to cut the sequence; the best layout of each is shown.
auto mesh_of(const Layout& l) { return std::tuple(l.pp, l.cp, l.tp, l.sequence, l.fsdp > 1 && l.stage == 3); }

struct Question {
  std::string what;
  std::function<bool(const Layout&)> holds;
  std::optional<Candidate> best;
  double needs = 1e300;
};

std::vector<Question> questions() {
  std::vector<Question> out;
  const auto ask = [&](std::string what, std::function<bool(const Layout&)> holds) {
    out.push_back({std::move(what), std::move(holds), {}, 1e300});
  };
  ask("without tp", [](const Layout& l) { return l.tp == 1; });
  ask("without cp", [](const Layout& l) { return l.cp == 1; });
  ask("without pp", [](const Layout& l) { return l.pp == 1; });
  ask("without fsdp", [](const Layout& l) { return l.fsdp == 1; });
  ask("fsdp alone", [](const Layout& l) { return l.tp == 1 && l.cp == 1 && l.pp == 1; });
  ask("with tp", [](const Layout& l) { return l.tp > 1; });
  ask("with cp", [](const Layout& l) { return l.cp > 1; });
  ask("with pp", [](const Layout& l) { return l.pp > 1; });
  return out;
}

class Search {
 public:
  explicit Search(const Problem& p) : p_(p), blocks_(p) {}

  Result<Found> operator()(int64_t count, const std::optional<Layout>& own) {
    each_layout(p_, [this](const Layout& l) { consider(l); });
    if (!out_.legal)
      return fail(KINORA_ERROR_INVALID,
                  "plan: no layout of {} GPUs is legal for batch = {}; the batch must be divisible "
                  "by GPUs / (tp*cp*pp)",
                  p_.cluster.size(), p_.batch);
    if (!out_.fit)
      return fail(KINORA_ERROR_INVALID,
                  "plan: nothing fits: the leanest layout, {}, needs {} of {} a GPU; take more GPUs",
                  leanest_.text(), format_size(static_cast<uint64_t>(least_)),
                  format_size(static_cast<uint64_t>(room(p_))));
    simulate();
    if (own && broken_rules(*own, p_).empty()) insert(*own);
    if (static_cast<int64_t>(out_.best.size()) > count) out_.best.resize(static_cast<size_t>(count));
    compare();
    return std::move(out_);
  }

 private:
  void consider(Layout l) {
    ++out_.legal;
    const bool fit = lighten(l, p_);
    const double needs = total(held(l, p_));
    if (needs < least_) least_ = needs, leanest_ = l;
    const Candidate c{l, fit ? estimate_step(l, p_, blocks_.of(l)) : 0};
    for (auto& q : questions_) {
      if (!q.holds(l)) continue;
      if (!fit)
        q.needs = std::min(q.needs, needs);
      else if (!q.best || better(c, *q.best))
        q.best = c;
    }
    if (!fit) return;
    ++out_.fit;
    const auto [it, added] = meshes_.try_emplace(mesh_of(l), c);
    if (!added && better(c, it->second)) it->second = c;
  }

  void simulate() {
    std::vector<Candidate> all;
    for (const auto& [mesh, c] : meshes_) all.push_back(c);
    std::sort(all.begin(), all.end(), better);
    if (all.size() > 24) all.resize(24);
    for (const auto& c : all)
      out_.best.push_back({c.layout, simulate_step(c.layout, p_, blocks_.of(c.layout)), held(c.layout, p_)});
    std::stable_sort(out_.best.begin(), out_.best.end(), [](const Plan& a, const Plan& b) {
      return better({a.layout, a.step.seconds}, {b.layout, b.step.seconds});
    });
  }

  // Inserts `own` before the first layout that is not faster: the search tries only some of the microbatch
  // sizes and recomputations.
  void insert(const Layout& own) {
    Plan plan{own, simulate_step(own, p_, blocks_.of(own)), held(own, p_)};
    auto& all = out_.best;
    if (total(plan.memory) > room(p_)) return;
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const Plan& p) { return p.layout.words() == own.words(); }),
              all.end());
    all.insert(std::find_if(all.begin(), all.end(),
                            [&](const Plan& p) { return p.step.seconds >= plan.step.seconds; }),
               std::move(plan));
  }

  // Omits comparisons that the best plan already satisfies.
  void compare() {
    const Layout& best = out_.best.front().layout;
    for (const auto& q : questions_) {
      if (q.holds(best)) continue;
      Found::Instead i{q.what, {}, 0, q.needs < 1e300 ? q.needs : 0};
      if (q.best) {
        i.layout = q.best->layout;
        i.slower = simulate_step(q.best->layout, p_, blocks_.of(q.best->layout)).seconds /
                       out_.best.front().step.seconds -
                   1;
      }
      out_.instead.push_back(std::move(i));
    }
  }

  const Problem& p_;
  Blocks blocks_;
  Found out_;
  std::vector<Question> questions_ = questions();
  std::map<decltype(mesh_of(Layout())), Candidate> meshes_;
  Layout leanest_;
  double least_ = 1e300;
};

double apart(const Layout& a, const Layout& b) {
  double out = 0;
  for (const auto member : {&Layout::pp, &Layout::dp, &Layout::fsdp, &Layout::cp, &Layout::tp})
    out += std::abs(std::log2(static_cast<double>(a.*member) / static_cast<double>(b.*member)));
  return out + 0.5 * (a.cp > 1 && b.cp > 1 && a.sequence != b.sequence) +
         0.25 * (a.virtual_stages != b.virtual_stages) +
         0.25 * (a.fsdp > 1 && b.fsdp > 1 && a.stage != b.stage) + 0.25 * (a.micro != b.micro) +
         0.125 * (a.ulysses != b.ulysses);
}

}  // namespace

std::vector<Layout> nearest(const Layout& l, const Problem& p, size_t count) {
  std::vector<std::pair<double, Layout>> all;
  each_layout(p, [&](const Layout& other) {
    all.emplace_back(apart(l, other), other);
    std::push_heap(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (all.size() <= count) return;
    std::pop_heap(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    all.pop_back();
  });
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Layout> out;
  for (const auto& [distance, layout] : all) out.push_back(layout);
  return out;
}

Result<Plan> price(const Layout& l, const Problem& p) {
  const auto rules = broken_rules(l, p);
  if (rules.empty()) return Plan{l, simulate_step(l, p, block_time(l, p)), held(l, p)};
  std::string message = l.words() + ": ";
  for (size_t i = 0; i < rules.size(); ++i) message += (i ? "; " : "") + rules[i];
  const auto near = nearest(l, p);
  for (size_t i = 0; i < near.size(); ++i) message += (i ? "; or " : ". Nearest legal: ") + near[i].words();
  return fail(KINORA_ERROR_INVALID, "{}", message);
}

Result<Found> search(const Problem& p, int64_t count, const std::optional<Layout>& own) {
  return Search(p)(count, own);
}

namespace {

// Parts of a cluster, smallest first: GPUs of one node, then whole nodes. Their counts divide the cluster's.
std::vector<Cluster> parts_of(const Cluster& whole) {
  std::vector<Cluster> out;
  const auto add = [&](int64_t nodes, int64_t per_node) {
    Cluster& part = out.emplace_back(whole);
    part.nodes = nodes, part.per_node = per_node;
  };
  for (int64_t n = 1; n < whole.per_node; ++n)
    if (whole.per_node % n == 0) add(1, n);
  for (int64_t n = 1; n < whole.nodes; ++n)
    if (whole.nodes % n == 0) add(n, whole.per_node);
  return out;
}

}  // namespace

std::optional<Fewer> as_fast_with_fewer(const Problem& p, double seconds) {
  constexpr double kSame = 1.01;
  for (const Cluster& part : parts_of(p.cluster)) {
    Problem smaller = p;
    smaller.cluster = part;
    auto found = search(smaller, 1);
    if (found && found->best.front().step.seconds <= kSame * seconds)
      return Fewer{part, std::move(found->best.front())};
  }
  return std::nullopt;
}

}  // namespace kinora::core::plan
