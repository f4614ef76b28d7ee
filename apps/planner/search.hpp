// Prices all legal layouts of a run, finds the best of them and reports them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/planner/cost.hpp"

namespace kinora::core::plan {

struct Plan {
  Layout layout;
  Step step;
  std::vector<Held> memory;
};

// Prices the given layout, also one that does not fit in memory, which Plan::memory shows.
// KINORA_ERROR_INVALID: lists the rules that it breaks, and the nearest legal layouts.
Result<Plan> price(const Layout&, const Problem&);

struct Found {
  std::vector<Plan> best;      // simulated, fastest first; one per mesh and strategy of cp
  int64_t legal = 0, fit = 0;  // layouts examined, and those of them that fit in memory
  // The fastest layout that fits, by estimate, under one constraint, "tp = 1", "cp = 1", ..., and its seconds
  // relative to the best estimate; none: no such layout fits.
  struct Instead {
    std::string what;
    std::optional<Layout> layout;
    double slower = 0;
    double needs = 0;  // bytes of the smallest layout, if none fits
  };
  std::vector<Instead> instead;
};

// own: the layout in use; if it is legal and fits, no slower layout is listed before it.
// KINORA_ERROR_INVALID: no layout is legal, or none fits; then with the memory that the smallest needs.
Result<Found> search(const Problem&, int64_t count = 5, const std::optional<Layout>& own = {});

// A smaller cluster on which a step takes no longer.
struct Fewer {
  Cluster cluster;
  Plan plan;
};
// The smallest part of the cluster, whole nodes or some GPUs of one node, whose best layout takes at most 1 %
// longer than `seconds`; nothing if every part is slower.
std::optional<Fewer> as_fast_with_fewer(const Problem&, double seconds);

// Legal layouts nearest to one that is not legal: the fewest factors of two apart.
std::vector<Layout> nearest(const Layout&, const Problem&, size_t count = 3);

// Plans as text and as JSON (report.cpp). heading: the model and the cluster, two lines.
std::string heading(const Problem&);
// A table of the best plans, and the reasons for the first.
std::string text_of(const Found&, const Problem&);
// One layout: its time and memory, and the recomputation that it lacks to fit.
std::string text_of(const Plan&, const Problem&);
// One line: how many GPUs would suffice.
std::string text_of(const Fewer&);
nlohmann::json json_of(const Plan&, const Problem&);
nlohmann::json json_of(const Fewer&);
nlohmann::json json_of(const Found&, const Problem&);

}  // namespace kinora::core::plan
