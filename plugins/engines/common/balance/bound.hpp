// Upper bounds on the throughput of any placement, computed without the balancer. The balancer is compared
// with them.
#pragma once
#include <optional>
#include <vector>

#include "plugins/engines/common/balance/place.hpp"

namespace kinora {

// An upper bound on c.x. It holds however the program was solved: it is the value b.y of a solution y of the
// dual problem that is made feasible here (weak duality).
double certified(const balance::LinearProgram&);

// Inputs per second if workers could be split into any fractions: the linear program over stages and kinds of
// nodes.
double linear_bound(const std::vector<balance::Stage>&, const std::vector<balance::Node>&);

// Of nodes whose resources move from stage to stage with the work, as balance::shared() of one machine. workers of a
// stage: its largest number at once; 0: any number. Infinite if nothing limits them; 0 if a stage fits on no node.
double shared_bound(std::vector<balance::Stage>, const std::vector<balance::Node>&);

// The linear bound for whole numbers of workers, each of which may still be spread over nodes. Never below the
// optimum.
double whole_worker_bound(const std::vector<balance::Stage>&, const std::vector<balance::Node>&);

// The same if each worker must be whole on its node (Gilmore and Gomory's bound). The result is between
// `reached`, which some placement is known to reach, and `bound`, to 1e-5 of the latter. Never below the
// optimum.
double whole_node_bound(const std::vector<balance::Stage>&, const std::vector<balance::Node>&, double reached,
                        double bound);

// The optimum itself, by trying every placement; nothing if the search would take more than `steps` steps.
// GPU shares must divide one another.
std::optional<double> exact_optimum(const std::vector<balance::Stage>&, const std::vector<balance::Node>&,
                                    int64_t steps);

}  // namespace kinora
