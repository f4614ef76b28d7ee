// Describes all misfits of weights and model in one line.
#pragma once
#include <string>
#include <vector>

namespace kinora::core {

struct WeightsProblems {
  std::vector<std::string> missing, unexpected;  // names
  std::vector<std::string> shapes;               // complete phrases
  std::vector<std::string> integers;             // complete phrases: integers for a floating-point parameter
};

// "" without problems. For each kind, the count and the first `most`. Names that differ only in their numbers
// are merged, as "blocks.*.q.weight (30 times)". A missing name is followed by the nearest unexpected one,
// and an unexpected one without such a partner by the nearest of `parameters`.
std::string complaint(const WeightsProblems& problems, const std::vector<std::string>& parameters,
                      size_t most = 3);

// The candidate nearest to a dotted name: the one with the fewest dotted parts inserted, removed or changed,
// where a partly changed part counts by its share of changed letters. "" if more than half of the parts would
// change.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace kinora::core
