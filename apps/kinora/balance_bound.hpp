// What no placement of workers can exceed, found without the balancer: what it is compared with.
#pragma once
#include <optional>
#include <vector>

#include "kinora/balance.hpp"

namespace kinora {

// max c.x with A x <= b and x >= 0, all b >= 0. By the simplex method; the answer does not rest on it: `value`
// is the bound b.y that a feasible solution y of the dual problem gives (weak duality), whatever led to y.
struct LinearProgram {
  std::vector<std::vector<double>> a;
  std::vector<double> b, c;
  double value() const;
};

// Inputs a second if workers could be cut into any fractions: the linear program over stages and kinds of nodes.
double linear_bound(const std::vector<balance::Stage>&, const std::vector<balance::Node>&);

// The same for whole numbers of workers, each of which may still be spread over nodes. Never below the optimum.
double whole_worker_bound(const std::vector<balance::Stage>&, const std::vector<balance::Node>&);

// The optimum itself, by trying every placement; nothing if that would take more than `steps` of the search.
// GPU shares must divide one another.
std::optional<double> exact_optimum(const std::vector<balance::Stage>&, const std::vector<balance::Node>&,
                                    int64_t steps);

}  // namespace kinora
