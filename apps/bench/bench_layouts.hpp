// Compares layouts of a sequence over ranks with the ones that they should beat: time and bytes of a training
// step.
#pragma once
#include "apps/bench/bench_ranks.hpp"

namespace kinora::core {

// request: as bench_parallel's. Measures stdit-hybrid's layouts on one small spatial-temporal model.
json bench_spatial_temporal(Runtime&, const BenchRanks&, const json& request);
// Measures balanced-sp's layouts on one small model under teacher forcing, with the encoding of its video,
// and the step by itself. Each rank encodes its own part and the frames that this depends on (balanced), or
// all of the video (naive). By rank: frames that its encoder reads, and peak tensor memory during training.
json bench_teacher_forcing(Runtime&, const BenchRanks&, const json& request);

}  // namespace kinora::core
