#include "core/torch/ranks/mesh.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <vector>

#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {

// A group and its transfers: those of the collective, or those of a group of one, where every result is the
// input, without its gradient.
struct MeshOwner::Group {
  kinora_group abi{};
  std::vector<int64_t> members;
  const kinora_collective* api = nullptr;
  void* group = nullptr;  // the collective's group; null: a group of one
  std::string name;
  Traffic* traffic = nullptr;

  ~Group() {
    if (group) api->release(group);
  }
  void finish_abi(int64_t rank) {
    abi.struct_size = sizeof abi;
    abi.rank = rank;
    abi.size = static_cast<int64_t>(members.size());
    abi.members = members.data();
    abi.self = this;
    abi.start = group ? start_many : start_alone;
    abi.finish = group ? finish_many : finish_alone;
  }

 private:
  // The collective's work together with its group, which finish() does not receive.
  struct Work {
    const Group* of;
    void* work;
    uint32_t op;
  };
  static int32_t start_many(void* self, const kinora_transfer* t, void** work) {
    const auto* g = static_cast<const Group*>(self);
    void* started = nullptr;
    const int32_t status = g->api->start(g->group, t, &started);
    if (status != KINORA_OK) return status;
    const int64_t bytes = t->in ? static_cast<int64_t>(borrow<at::Tensor>(t->in).nbytes()) : 0;
    g->traffic->started(g->name, g->abi.size, g->abi.rank, t->op, t->peer, bytes);
    *work = new Work{g, started, t->op};
    return KINORA_OK;
  }
  static int32_t finish_many(void* work, kinora_tensor* out) {
    const std::unique_ptr<Work> ends(static_cast<Work*>(work));
    const auto begin = std::chrono::steady_clock::now();
    const int32_t status = ends->of->api->finish(ends->work, out);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    ends->of->traffic->waited(ends->of->name, ends->op, waited.count());
    return status;
  }
  static int32_t start_alone(void*, const kinora_transfer* t, void** work) {
    if (t->op == KINORA_OP_SEND || t->op == KINORA_OP_RECV)
      return set_error(KINORA_ERROR_INVALID, "a group of one rank has no peer to send to");
    *work = t->op == KINORA_OP_BARRIER ? nullptr : give(borrow<at::Tensor>(t->in).detach());
    return KINORA_OK;
  }
  static int32_t finish_alone(void* work, kinora_tensor* out) {
    *out = static_cast<kinora_tensor>(work);
    return KINORA_OK;
  }
};

MeshOwner::MeshOwner() {
  abi_ = {sizeof(kinora_mesh), 0, 0, 1, this, [](void* self, const char* axes, const kinora_group** out) {
            return guard([&] { *out = static_cast<MeshOwner*>(self)->group(axes); });
          }};
}

MeshOwner::MeshOwner(const kinora_collective& api, void* collective, int64_t rank, const Sizes& sizes)
    : MeshOwner() {
  api_ = &api;
  collective_ = collective;
  for (const auto& [axis, n] : sizes) {
    if (n < 1)
      throw Error(KINORA_ERROR_INVALID,
                  "axis " + axis + " of the mesh has size " + std::to_string(n) + "; it must be at least 1");
    size_[index_of(axis)] = n;
    abi_.size *= n;
  }
  if (rank < 0 || rank >= abi_.size)
    throw Error(KINORA_ERROR_INVALID, "rank " + std::to_string(rank) + " is outside a mesh of " +
                                          std::to_string(abi_.size) + " ranks");
  abi_.rank = rank;
  coordinate_ = coordinates_of(rank);
}

MeshOwner::~MeshOwner() = default;

size_t MeshOwner::index_of(std::string_view axis) {
  for (size_t i = 0; i < kAxes.size(); ++i)
    if (kAxes[i] == axis) return i;
  throw Error(KINORA_ERROR_INVALID, "the mesh has no axis '" + std::string(axis) +
                                        "'; its axes are pp, dp, fsdp, cfg, cp, tp, and world for all");
}

// Axes of size 1 are ignored: "dp" is "world" if nothing else is split, and both share one connection.
MeshOwner::Which MeshOwner::which(std::string_view axes) const {
  Which out;
  const size_t sign = axes.find_first_of("/%");
  if (sign != std::string_view::npos) {
    const auto digits = axes.substr(sign + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.cut);
    const size_t axis = index_of(axes.substr(0, sign));
    if (error != std::errc() || end != digits.data() + digits.size() || out.cut < 1 || size_[axis] % out.cut)
      throw Error(KINORA_ERROR_INVALID, "group '" + std::string(axes) + "': axis " +
                                            std::string(kAxes[axis]) + " of size " +
                                            std::to_string(size_[axis]) + " cannot be cut that way");
    out.neighbours = axes[sign] == '/';
    if (out.cut == size_[axis] || out.cut == 1) {  // the whole axis, or this rank alone
      const bool whole = (out.cut == 1) != out.neighbours;
      return {whole && size_[axis] > 1 ? 1u << axis : 0, 0, true};
    }
    out.mask = 1u << axis;
    return out;
  }
  if (axes == "world") out.mask = (1u << kAxes.size()) - 1;
  while (!axes.empty() && axes != "world") {
    const size_t plus = axes.find('+');
    out.mask |= 1u << index_of(axes.substr(0, plus));
    axes = plus == std::string_view::npos ? std::string_view() : axes.substr(plus + 1);
  }
  for (size_t i = 0; i < kAxes.size(); ++i)
    if (size_[i] == 1) out.mask &= ~(1u << i);
  return out;
}

bool MeshOwner::is_member(const Which& w, const Coordinates& c) const {
  for (size_t i = 0; i < kAxes.size(); ++i) {
    const bool along = w.mask >> i & 1;
    if (!along && c[i] != coordinate_[i]) return false;
    if (!along || w.cut == 0) continue;
    if (w.neighbours ? c[i] / w.cut != coordinate_[i] / w.cut : c[i] % w.cut != coordinate_[i] % w.cut)
      return false;
  }
  return true;
}

std::string MeshOwner::name_of(const Which& w) const {
  std::string name;
  for (size_t i = 0; i < kAxes.size(); ++i)
    if (w.mask >> i & 1) name += (name.empty() ? "" : "+") + std::string(kAxes[i]);
  return w.cut ? name + (w.neighbours ? "/" : "%") + std::to_string(w.cut) : name;
}

MeshOwner::Coordinates MeshOwner::coordinates_of(int64_t rank) const {
  Coordinates c{};
  for (size_t i = kAxes.size(); i-- > 0; rank /= size_[i]) c[i] = rank % size_[i];
  return c;
}

const kinora_group* MeshOwner::group(std::string_view axes) {
  const Which wanted = which(axes);
  if (const auto known = groups_.find(wanted); known != groups_.end()) return &known->second->abi;

  auto made = std::make_unique<Group>();
  int64_t mine = 0;
  for (int64_t r = 0; r < abi_.size; ++r) {
    if (!is_member(wanted, coordinates_of(r))) continue;
    if (r == abi_.rank) mine = static_cast<int64_t>(made->members.size());
    made->members.push_back(r);
  }
  if (made->members.size() > 1) {
    made->name = name_of(wanted);
    check(api_->group(collective_, made->name.c_str(), made->members.data(), made->members.size(),
                      &made->group));
    made->api = api_;
    made->traffic = &traffic_;
  }
  made->finish_abi(mine);
  return &groups_.emplace(wanted, std::move(made)).first->second->abi;
}

namespace {

void require_one_each(const std::vector<AxisUse>& uses) {
  for (size_t i = 0; i < uses.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const auto &a = uses[j], &b = uses[i];
      if (a.axis == b.axis)
        raise(KINORA_ERROR_INVALID,
              "parallel: an axis has one strategy, and {} and {} both cut along {}; leave one out{}",
              a.strategy, b.strategy, a.axis, a.axis == "cp" ? " (cp-2d is Ulysses and ring in one)" : "");
      if (a.size == 0 && b.size == 0)
        raise(KINORA_ERROR_INVALID,
              "parallel: one strategy takes the ranks that are left, and {} and {} both would; {}",
              a.strategy, b.strategy,
              b.sizable   ? "give " + b.strategy + " a size"
              : a.sizable ? "give " + a.strategy + " a size"
                          : "leave one out");
    }
}

std::string ranks(int64_t n) { return std::to_string(n) + (n == 1 ? " rank" : " ranks"); }

// "tp = 3 or cp = 6": the size that one axis would need if the others stay.
std::string alternatives(const std::vector<AxisUse>& uses, int64_t product, int64_t world) {
  std::string out;
  for (const auto& u : uses) {
    const int64_t others = product / std::max<int64_t>(u.size, 1);
    if (u.size > 0 && u.axis != "cfg" && world % others == 0)  // cfg has at most two predictions
      out += fmt::format(" or {} = {}", u.axis, world / others);
  }
  return out.empty() ? out
                     : "; for " + ranks(world) + " change one, if the model allows it: " + out.substr(4);
}

}  // namespace

MeshOwner::Sizes sizes_of(const std::vector<AxisUse>& uses, int64_t world) {
  require_one_each(uses);
  MeshOwner::Sizes sizes;
  if (world == 1) {
    for (const auto& u : uses) sizes[u.axis] = 1;
    return sizes;
  }
  int64_t product = 1;
  std::string open_axis;
  for (const auto& u : uses) {
    if (u.size == 0) open_axis = u.axis;
    if (u.size > 0) product *= sizes[u.axis] = u.size;
  }
  if (world == kAnyWorld) world = product;
  if (uses.empty() && world > 1)
    raise(KINORA_ERROR_INVALID,
          "parallel: none of its strategies shares work among ranks, and this launch has {}; add one, such "
          "as ddp, or start 1",
          world);
  const bool fits = open_axis.empty() ? product == world : world % product == 0;
  if (!fits && open_axis.empty())
    raise(KINORA_ERROR_INVALID,
          "parallel: the sizes of its axes multiply to {}, and this launch has {}; start {}, or add ddp, "
          "which takes what is left of a multiple{}",
          product, ranks(world), product, alternatives(uses, product, world));
  if (!fits)
    raise(KINORA_ERROR_INVALID,
          "parallel: the sizes of its axes multiply to {}, and the {} of this launch are not a multiple; "
          "start {}{}",
          product, ranks(world), (world / product + 1) * product, alternatives(uses, product, world));
  if (!open_axis.empty()) sizes[open_axis] = world / product;
  return sizes;
}

}  // namespace kinora::core
