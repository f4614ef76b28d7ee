// The ranks of a run as a mesh of named axes, and groups along any of them (kinora_mesh of
// kinora/abi/strategy.h).
//
// Axes, outermost first: pp, dp, fsdp, cfg, cp, tp; so world rank = ((((pp * DP + dp) * FSDP + fsdp) * CFG +
// cfg) * CP + cp) * TP + tp, and the ranks of a tensor group, which talk most, are neighbours. A group of
// several axes ("cp+tp") holds the ranks that differ in these only, ordered by world rank; the order of the
// names does not matter. One axis may be cut in two: "cp/4" holds four neighbours along it, "cp%4" those that have the same
// place among theirs.
#pragma once
#include <array>
#include <compare>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/torch/context/traffic.hpp"
#include "kinora/abi/strategy.h"

namespace kinora::core {

class MeshOwner {
 public:
  static constexpr std::array<std::string_view, 6> kAxes = {"pp", "dp", "fsdp", "cfg", "cp", "tp"};
  using Sizes = std::map<std::string, int64_t, std::less<>>;

  // One process: every group is of one, and nothing communicates.
  MeshOwner();
  // Axes that `sizes` does not name have size 1. `collective` has joined a world of their product, in which
  // this process is `rank`; it outlives the mesh. Throws Error(KINORA_INVALID).
  MeshOwner(const kinora_collective& api, void* collective, int64_t rank, const Sizes& sizes);
  MeshOwner(const MeshOwner&) = delete;
  MeshOwner& operator=(const MeshOwner&) = delete;
  ~MeshOwner();

  const kinora_mesh* abi() const { return &abi_; }

  // [owner-thread] Made on first use, which is a meeting of its members: every rank asks for the same groups
  // in the same order. Throws Error(KINORA_INVALID) for a name that is no axis.
  const kinora_group* group(std::string_view axes);
  // This process' place along an axis, and the axis' size.
  int64_t coordinate(std::string_view axis) const { return coordinate_[index_of(axis)]; }
  int64_t size(std::string_view axis) const { return size_[index_of(axis)]; }
  // What went through all groups of more than one rank.
  const Traffic& traffic() const { return traffic_; }

 private:
  struct Group;
  using Coordinates = std::array<int64_t, kAxes.size()>;
  static size_t index_of(std::string_view axis);
  // What a group's name says.
  struct Which {
    uint32_t mask = 0;       // bit i: axis i
    int64_t cut = 0;         // of an axis that is cut in two; 0: whole
    bool neighbours = true;  // else those at one place
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

}  // namespace kinora::core
