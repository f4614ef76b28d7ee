// What no placement of workers can exceed, found without the balancer: what it is compared with.
#pragma once
#include <optional>
#include <vector>

#include "kinora/balance.hpp"

namespace kinora {

// What c.x can be at most. It does not rest on how the program is solved: it is the value b.y of a solution y of
// the dual problem that is made feasible here (weak duality), whatever led to y.
double certified(const balance::LinearProgram&);

// Inputs a second if workers could be cut into any fractions: the linear program over stages and kinds of nodes.
double linear_bound(const std::vector<balance::Stage>&, const std::vector<balance::Node>&);

// The same for whole numbers of workers, each of which may still be spread over nodes. Never below the optimum.
double whole_worker_bound(const std::vector<balance::Stage>&, const std::vector<balance::Node>&);

// The same where each worker has to be whole on its node (Gilmore and Gomory's bound), between `reached`, which some
// placement is known to reach, and `bound`, to 1e-5 of it. Never below the optimum.
double whole_node_bound(const std::vector<balance::Stage>&, const std::vector<balance::Node>&, double reached, double bound);

// The optimum itself, by trying every placement; nothing if that would take more than `steps` of the search.
// GPU shares must divide one another.
std::optional<double> exact_optimum(const std::vector<balance::Stage>&, const std::vector<balance::Node>&,
                                    int64_t steps);

}  // namespace kinora
