// Whether the stages of a curate job stand in an order in which they have something to do.
#pragma once
#include "plugins/jobs/curate/tensor_flow.hpp"

namespace kinora::core {

// Films are cut once, after their shots are found and before what is said of clips; shots.merge compares what a stage embed.*
// before it makes; a filter with bounds has one. Of Kinora's own stages alone. problem: what fails for every film; doubt: what
// works and is hardly meant.
void check_order(const Registry& registry, const std::vector<const ComponentUse*>& stages, const Finding& problem,
                 const Finding& doubt);

}  // namespace kinora::core
