// The ranks of a run as a mesh of named axes, and groups along any of them (kinora_mesh of
// kinora/abi/parallel.h).
//
// Axes, outermost first: pp, dp, fsdp, cfg, cp, tp; world rank = ((((pp * DP + dp) * FSDP + fsdp) * CFG +
// cfg) * CP + cp) * TP + tp, so the ranks of a tensor group, which communicate most, are neighbours. A group
// of several axes ("cp+tp") contains the ranks that differ in these axes only, ordered by world rank; the
// order of the names does not matter. One axis may be cut in two: "cp/4" contains four neighbours along it,
// "cp%4" the ranks at the same position within such groups.
#pragma once
#include <array>
#include <compare>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/torch/ranks/traffic.hpp"
#include "kinora/abi/parallel.h"

namespace kinora::core {

class MeshOwner {
 public:
  static constexpr std::array<std::string_view, 6> kAxes = {"pp", "dp", "fsdp", "cfg", "cp", "tp"};
  using Sizes = std::map<std::string, int64_t, std::less<>>;

  // One process: every group has one rank, and nothing communicates.
  MeshOwner();
  // Axes missing from `sizes` have size 1. `collective` has joined a world of their product, in which this
  // process is `rank`; it must outlive the mesh. Throws Error(KINORA_ERROR_INVALID).
  MeshOwner(const kinora_collective& api, void* collective, int64_t rank, const Sizes& sizes);
  MeshOwner(const MeshOwner&) = delete;
  MeshOwner& operator=(const MeshOwner&) = delete;
  ~MeshOwner();

  const kinora_mesh* abi() const { return &abi_; }

  // [owner-thread] Created on first use, which is collective: every rank must request the same groups in the
  // same order. Throws Error(KINORA_ERROR_INVALID) for an unknown axis.
  const kinora_group* group(std::string_view axes);
  // This process' coordinate along an axis, and the axis' size.
  int64_t coordinate(std::string_view axis) const { return coordinate_[index_of(axis)]; }
  int64_t size(std::string_view axis) const { return size_[index_of(axis)]; }
  // Traffic of all groups of more than one rank.
  const Traffic& traffic() const { return traffic_; }

 private:
  struct Group;
  using Coordinates = std::array<int64_t, kAxes.size()>;
  static size_t index_of(std::string_view axis);
  // A parsed group name.
  struct Which {
    uint32_t mask = 0;       // bit i: axis i
    int64_t cut = 0;         // 4 for "cp/4" and "cp%4"; 0: the whole axis
    bool neighbours = true;  // false: ranks at the same position
    auto operator<=>(const Which&) const = default;
  };
  Which which(std::string_view axes) const;
  bool is_member(const Which&, const Coordinates&) const;
  std::string name_of(const Which&) const;
  Coordinates coordinates_of(int64_t rank) const;

  kinora_mesh abi_{};
  const kinora_collective* api_ = nullptr;
  void* collective_ = nullptr;
  Coordinates size_{1, 1, 1, 1, 1, 1}, coordinate_{};
  Traffic traffic_;
  std::map<Which, std::unique_ptr<Group>> groups_;
};

// A strategy that splits along an axis; size 0: takes the remaining ranks. sizable: it has an option `size`.
struct AxisUse {
  std::string strategy, axis;
  int64_t size = 0;
  bool sizable = true;
};

// Any number of ranks: as few as the sizes require, so that errors in them show at every world size.
constexpr int64_t kAnyWorld = 0;

// Computes the sizes of a mesh's axes from a job's strategies, and checks that they may be composed.
//
// Each axis has at most one strategy, at most one strategy takes the remaining ranks, and the product of all
// sizes is the world size. One process computes the same as any layout: in a world of one every size is 1.
// Throws Error(KINORA_ERROR_INVALID) with the broken rule and the nearest sizes that satisfy it.
MeshOwner::Sizes sizes_of(const std::vector<AxisUse>& uses, int64_t world);

}  // namespace kinora::core
