// A small set of parameters as distributed over the ranks of a mesh: cut by tensor parallelism (columns,
// rows, fused parts), in flat shards (FSDP), absent on other stages (a pipeline), replicated; and
// combinations of these.
#pragma once
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "core/torch/weights/weights.hpp"
#include "plugins/collectives/gloo/gloo_testing.hpp"

namespace kinora::core::spread {

struct Layout {
  const char* name;
  int64_t pp = 1, dp = 1, fsdp = 1, tp = 1;
  int64_t size() const { return pp * dp * fsdp * tp; }
};

inline const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all{
      {"one"},
      {.name = "tp2", .tp = 2},
      {.name = "fsdp4", .fsdp = 4},
      {.name = "pp2", .pp = 2},
      {.name = "tp2 x fsdp2", .fsdp = 2, .tp = 2},
      {.name = "dp2", .dp = 2},
      {.name = "tp4", .tp = 4},
      {.name = "fsdp2", .fsdp = 2},
      {.name = "pp2 x tp2", .pp = 2, .tp = 2},
      {.name = "dp2 x fsdp2", .dp = 2, .fsdp = 2},
      {.name = "pp2 x fsdp2", .pp = 2, .fsdp = 2},
      {"one"},
  };
  return all;
}

// Parameters of one process. Leaves are bfloat16 if the name ends with "half".
inline Parameters parameters() {
  const auto make = [](const char* name, std::vector<int64_t> shape, uint32_t role, int64_t block,
                       std::vector<int64_t> parts = {}) {
    Parameter p;
    p.name = name, p.shape = std::move(shape), p.role = role, p.block = block;
    p.parts = std::move(parts);
    if (p.parts.empty()) p.parts = {p.shape.empty() ? 1 : p.shape[role == KINORA_ROLE_ROW ? 1 : 0]};
    return p;
  };
  return {make("blocks.0.qkv", {16, 5}, KINORA_ROLE_COLUMN, 0, {8, 4, 4}),
          make("blocks.0.qkv.bias", {16}, KINORA_ROLE_COLUMN, 0, {8, 4, 4}),
          make("blocks.0.out", {3, 8}, KINORA_ROLE_ROW, 0),
          make("blocks.0.out.half", {5, 8}, KINORA_ROLE_ROW, 0),
          make("blocks.1.norm", {7}, KINORA_ROLE_WHOLE, 1),
          make("blocks.1.up.half", {8, 2, 3}, KINORA_ROLE_COLUMN, 1),
          make("blocks.1.table", {5, 3}, KINORA_ROLE_TABLE, 1),
          make("scale", {}, KINORA_ROLE_WHOLE, -1),
          make("head", {4, 9}, KINORA_ROLE_COLUMN, -1)};
}
inline at::ScalarType dtype_of(const std::string& name) {
  return name.ends_with("half") ? at::kBFloat16 : at::kFloat;
}

constexpr int64_t kLargeCount = 16, kLargeEach = 1 << 19, kLargeBytes = 4 * kLargeEach;  // 2 MiB each

inline Parameters large() {
  Parameters out;
  for (int64_t i = 0; i < kLargeCount; ++i) {
    Parameter p;
    p.name = "blocks." + std::to_string(i) + ".w", p.shape = {64, kLargeEach / 64}, p.parts = {64},
    p.block = i;
    p.role = KINORA_ROLE_COLUMN;
    out.push_back(p);
  }
  return out;
}

// The part that a rank of that layout holds.
struct OnRank {
  Parameters parameters;
  std::vector<Leaf> leaves;
  OnRank(const Layout& layout, int64_t rank, Parameters all = spread::parameters())
      : parameters(std::move(all)) {
    const int64_t tp = rank % layout.tp, fsdp = rank / layout.tp % layout.fsdp,
                  pp = rank / (layout.tp * layout.fsdp * layout.dp);
    std::map<std::pair<int64_t, bool>, std::vector<kinora_param>> units;  // by block and dtype
    for (size_t i = 0; i < parameters.size(); ++i) {
      auto& p = parameters[i];
      if (p.role == KINORA_ROLE_COLUMN || p.role == KINORA_ROLE_ROW) p.shard = tp, p.shards = layout.tp;
      if (p.block >= 0 && p.block % layout.pp != pp) continue;
      const auto id = static_cast<kinora_param>(i + 1);
      units[{p.block, dtype_of(p.name) == at::kFloat}].push_back(id);
      if (layout.fsdp == 1)
        leaves.push_back({p.name,
                          at::zeros(p.local_shape(), dtype_of(p.name)),
                          false,
                          false,
                          {{id, 0, p.local_numel(), 0}}});
    }
    if (layout.fsdp > 1)
      for (const auto& [key, ids] : units) leaves.push_back(flat(ids, fsdp, layout.fsdp));
  }
  std::vector<at::Tensor> zeros() const {
    std::vector<at::Tensor> out;
    for (const auto& l : leaves) out.push_back(at::zeros(l.tensor.sizes(), at::kFloat));
    return out;
  }

 private:
  // The local pieces concatenated and padded to equal shards.
  Leaf flat(const std::vector<kinora_param>& ids, int64_t shard, int64_t shards) const {
    int64_t total = 0, at = 0;
    for (const auto id : ids) total += of(id).local_numel();
    const int64_t size = (total + shards - 1) / shards, begin = shard * size, end = begin + size;
    Leaf out{of(ids[0]).name + " ..", at::zeros({size}, dtype_of(of(ids[0]).name)), false, true, {}};
    for (const auto id : ids) {
      const int64_t n = of(id).local_numel(), first = std::max(begin, at), last = std::min(end, at + n);
      if (first < last) out.pieces.push_back({id, first - at, last - first, first - begin});
      at += n;
    }
    return out;
  }
  const Parameter& of(kinora_param id) const { return parameters[static_cast<size_t>(id - 1)]; }
};

// Random bits, which include NaN with various payloads, infinities and -0.0.
inline NamedTensors random_bits(const Parameters& all, int64_t seed, bool moments) {
  at::manual_seed(static_cast<uint64_t>(seed));
  NamedTensors out;
  for (const auto& p : all) {
    const bool half = !moments && dtype_of(p.name) == at::kBFloat16;
    auto bits = at::randint(INT32_MIN, INT32_MAX, {p.numel()}, at::kInt);
    bits[0] = INT32_MIN;                                            // -0.0
    if (p.numel() > 1) bits[1] = static_cast<int32_t>(0xFFA0BEEF);  // a signalling NaN
    out[p.name] = (half ? bits.view(at::kBFloat16).slice(0, 1, INT64_MAX, 2) : bits.view(at::kFloat))
                      .clone()
                      .view(p.shape);
  }
  return out;
}

// An exchange among the first `size` ranks of a world.
class Some {
 public:
  Some(const test::World& world, const test::Rank& me, int64_t size)
      : in_(me.rank < size),
        mesh_(*world.gloo.operator->(), world.gloo.self(), me.rank, {{"dp", me.size / size}, {"tp", size}}),
        exchange_(*mesh_.group("tp")) {}
  bool in() const { return in_; }
  const Exchange& exchange() const { return exchange_; }

 private:
  bool in_;
  MeshOwner mesh_;
  Exchange exchange_;
};

}  // namespace kinora::core::spread
