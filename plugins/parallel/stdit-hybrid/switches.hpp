// Two layouts of a sequence over P ranks and the transfer between them: by frames, where spatial attention
// needs no transfer, and by positions, where temporal attention needs none.
//
// A frame is one (SAMPLE, FRAME) of the table, a position one (SAMPLE, ROW, COL), also in packed rows.
// Rank r has the r-th run of whole frames, rank s every sample's s-th run of whole positions. The tokens of
// frame run r and position run s form a cell of c slots; c is the largest cell's count, and the remaining
// slots are padding. So every rank holds L = P c tokens in either layout, and one all-to-all of equal cells
// converts one into the other. T ranks of a tensor group split each cell into T parts, and each transfers its
// own part.
#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace kinora {

struct Switches {
  int64_t padding = 0;  // rows after the one-process order: P L - tokens
  at::Tensor
      by_frames;  // int64 [P L]: the token at each place, rank after rank; in the one-process order within a
  at::Tensor by_places;  // rank's (and its tensor group's) part, padding last
  // For this rank's part of a tensor group, int64 [L / T]: from the order by frames to cells, from the
  // received cells to the order by positions, and the inverses.
  at::Tensor leave_frames, enter_places, leave_places, enter_frames;
};

// table: int64 [1 or B, tokens, columns], whose first row's geometry applies to all rows; rank of P, part of T.
Switches make_switches(const at::Tensor& table, int64_t rank, int64_t P, int64_t part, int64_t T);

}  // namespace kinora
