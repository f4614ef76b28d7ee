#include "plugins/caches/kv/positions.hpp"

#include <algorithm>

#include "plugins/caches/kv/kept_rows.hpp"

namespace kinora {
namespace {

Tensor on_device_of(const Tensor& like, const Tensor& t) {
  const auto on = like.info();
  const int64_t device = on.device_type == KINORA_DL_CPU ? -1 : on.device_id;
  return op("aten::to", "device", {t, device, KINORA_DTYPE_FLOAT64});
}

// The angle by which each pair turns, [1 or B, 1, 1, d / 2]; it is 0 for pairs of other axes than time.
Tensor angles_of(int64_t positions, const Tensor& x, const kinora_rope& rope) {
  std::vector<double> angles(static_cast<size_t>(x.size(3) / 2), 0.0);
  for (int64_t i = 0; i < rope.pairs[0]; ++i)
    angles[static_cast<size_t>(i)] = static_cast<double>(positions) * rope.frequency[i];
  const Tensor out = on_device_of(x, tensor(angles, {1, 1, 1, static_cast<int64_t>(angles.size())}));
  if (!rope.rate) return out;
  return out * on_device_of(x, borrow<Tensor>(rope.rate)).reshape({-1, 1, 1, 1});
}

Tensor turned(const Tensor& x, int64_t positions, const kinora_rope& rope) {
  if (positions == 0) return x;
  const Tensor angles = angles_of(positions, x, rope);
  const auto wide = x.dtype() == KINORA_DTYPE_FLOAT64 ? KINORA_DTYPE_FLOAT64 : KINORA_DTYPE_FLOAT32;
  const Tensor cos = op("aten::cos", "", {angles}).to(wide), sin = op("aten::sin", "", {angles}).to(wide);
  const auto shape = x.sizes();
  const int64_t half = shape[3] / 2;
  const bool halves = rope.layout == KINORA_ROPE_HALVES;
  // Pairs along one of two last dimensions.
  const Tensor pairs =
      x.to(wide).reshape(halves ? std::vector{shape[0], shape[1], shape[2], int64_t{2}, half}
                                : std::vector{shape[0], shape[1], shape[2], half, int64_t{2}});
  const int64_t dim = halves ? 3 : 4;
  const auto part = [&](int64_t i) { return op("aten::select", "int", {pairs, dim, i}); };
  const Tensor a = part(0), b = part(1);
  return op("aten::stack", "", {std::vector<Tensor>{a * cos - b * sin, b * cos + a * sin}, dim})
      .reshape(shape)
      .to(x.dtype());
}

}  // namespace

TimeAxis time_axis(const kinora_rope& rope) {
  const bool is_of_time = rope.column[0] == KINORA_TOKEN_TIME || rope.column[0] == KINORA_TOKEN_INDEX;
  if (rope.layout > KINORA_ROPE_PAIRS || rope.n_axes < 1 || !is_of_time || rope.divisor[0] < 1 ||
      rope.modulus[0] != 0)
    throw Error(
        KINORA_ERROR_UNSUPPORTED,
        "positions = \"relative\" needs a rotation of halves or pairs whose first axis is time, of column "
        "TIME or INDEX and without a modulus; set positions = \"absolute\"");
  return {rope.column[0], rope.first, rope.divisor[0]};
}

std::vector<int64_t> times_of(const Tensor& table, const TimeAxis& axis) {
  auto out = numbers_of(op("aten::select", "int", {table[0], 1, axis[0]}));
  for (int64_t& t : out) t = std::max<int64_t>(t - axis[1], 0) / axis[2];
  return out;
}

std::vector<Turn> turns_of(const std::vector<int64_t>& closed) {
  std::vector<Turn> out;
  for (const int64_t before : closed) {
    const int64_t positions = closed.back() - before;
    if (out.empty() || out.back().positions != positions) out.push_back({0, positions});
    ++out.back().tokens;
  }
  return out;
}

Tensor turned(const Tensor& k, const std::vector<Turn>& turns, const kinora_rope& rope) {
  if (turns.size() == 1) return k;
  if (2 * rope.pairs[0] > k.size(3))
    throw Error(KINORA_ERROR_INVALID, "the rotation has " + std::to_string(rope.pairs[0]) +
                                          " pairs of time, keys have " + std::to_string(k.size(3)) +
                                          " channels");
  std::vector<Tensor> out;
  int64_t first = 0;
  for (const Turn& turn : turns) {
    out.push_back(turned(k.narrow(1, first, turn.tokens), turn.positions, rope));
    first += turn.tokens;
  }
  return op("aten::cat", "", {out, 1});
}

}  // namespace kinora
