// What does not fit when weights are loaded, said once for all tensors, in one line.
#pragma once
#include <string>
#include <vector>

namespace kinora::core {

struct WeightsProblems {
  std::vector<std::string> missing, unexpected;  // names
  std::vector<std::string> shapes;               // whole phrases
};

// "" if there are none. Of each sort the count and the first `most`. Names that differ in their numbers only
// are said once, as "blocks.*.q.weight (30 times)"; after a missing name comes the unexpected one that is
// nearest to it, and after an unexpected one without such a partner the nearest of `parameters`.
std::string complaint(const WeightsProblems& problems, const std::vector<std::string>& parameters,
                      size_t most = 3);

// The candidate nearest to a dotted name: the fewest dotted parts inserted, removed or changed, a part that
// is changed by some of its letters counting for that share of one. "" if more than half of the parts would
// change.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace kinora::core
