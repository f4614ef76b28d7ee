// Layouts of a sequence over ranks, each against the ones that it is meant to beat: a training step's time,
// and bytes.
#pragma once
#include "apps/bench/bench_ranks.hpp"

namespace kinora::core {

// request: as bench_parallel's. stdit-hybrid's layouts on one small spatial-temporal model.
json bench_spatial_temporal(Runtime&, const BenchRanks&, const json& request);
// balanced-sp's layouts on one small model under teacher forcing, with the encoding of its video: each rank's
// own stretch of time and what that depends on (balanced), or all of it on every rank (naive); and the step
// by itself. By rank: frames that its encoder reads, and the most bytes of tensors that live at once while it
// trains.
json bench_teacher_forcing(Runtime&, const BenchRanks&, const json& request);

}  // namespace kinora::core
