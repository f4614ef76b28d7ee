// Divides the samples of a step, which have different sizes, into rows with about equally many tokens.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kinora::core {

struct Packing {
  std::vector<std::vector<size_t>> rows;  // numbers of the samples of each row, ascending
  double efficiency = 1;                  // mean cost of a row, divided by the largest
};

// costs: of each sample, at least one a row. The costliest sample comes first, each into the row that costs least
// so far (longest processing time first, Graham 1969), so that a row costs at most 4/3 of the least possible.
Packing pack(const std::vector<int64_t>& costs, size_t rows);

}  // namespace kinora::core
