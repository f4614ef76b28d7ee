// A check of collectives: a world of one rank, where every result is known. Several ranks are not tried.
#include "apps/kinora/validate/trial_tensors.hpp"
#include "kinora/abi/collective.h"

namespace kinora {
namespace collective_checks_of {
namespace {

// A world of this process, and its group.
class World {
 public:
  explicit World(const PluginTrial& t)
      : options_(t.options()), made_(t, options_), rendezvous_("file://" + t.folder + "/world") {
    kinora_world world{};
    world.struct_size = sizeof world;
    world.timeout_ms = 20000;
    world.size = 1;
    world.rendezvous = rendezvous_.c_str();
    t.now("join() of a world of one rank at file://");
    require(made_.api.join(made_.self, &world), "join()");
    const int64_t self = 0;
    t.now("group() of one rank");
    require(made_.api.group(made_.self, "all", &self, 1, &group_), "group()");
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    if (group_) made_.api.release(group_);
  }

  Tensor transferred(kinora_transfer transfer, const std::string& what) const {
    void* work = nullptr;
    kinora_tensor out = nullptr;
    transfer.struct_size = sizeof transfer;
    require(made_.api.start(group_, &transfer, &work), "start() of " + what);
    require(made_.api.finish(work, &out), "finish() of " + what);
    return Tensor::adopt(out);
  }

 private:
  // Skips the check on a machine without the device that the collective needs.
  static void require(int32_t status, const std::string& call) {
    if (status == KINORA_ERROR_UNSUPPORTED) throw Skipped{call + ": " + last_message()};
    if (status != KINORA_OK) throw Error(status, call + ": " + last_message());
  }
  core::Options options_;
  TrialInstance<kinora_collective> made_;
  const std::string rendezvous_;
  void* group_ = nullptr;
};

std::string check_alone(PluginTrial& t) {
  const World world(t);
  const struct {
    const char* name;
    uint32_t op;
    int64_t dim, dim2;
  } cases[] = {
      {"ALL_REDUCE", KINORA_OP_ALL_REDUCE, 0, 0},  {"ALL_REDUCE_MAX", KINORA_OP_ALL_REDUCE_MAX, 0, 0},
      {"ALL_GATHER", KINORA_OP_ALL_GATHER, -1, 0}, {"REDUCE_SCATTER", KINORA_OP_REDUCE_SCATTER, 1, 0},
      {"ALL_TO_ALL", KINORA_OP_ALL_TO_ALL, 0, 1},  {"BROADCAST", KINORA_OP_BROADCAST, 0, 0}};
  const Tensor x = op("aten::t", "", {normal(t.subject.seed, {6, 4})});  // transfers take any strides
  for (const auto& c : cases)
    for (const int32_t dtype : {KINORA_DTYPE_FLOAT64, KINORA_DTYPE_FLOAT32, KINORA_DTYPE_INT64}) {
      const Tensor in = (x * 10.0).to(dtype);
      const auto before = numbers(in);
      const auto what = fmt::format("{} of dtype {}", c.name, dtype);
      t.now(what);
      const Tensor out = world.transferred({.op = c.op, .dim = c.dim, .dim2 = c.dim2, .in = in.get()}, what);
      if (!out.defined() || out.sizes() != in.sizes() || out.dtype() != dtype || numbers(out) != before)
        throw Error(KINORA_ERROR_FAILED,
                    what + " of one rank is not its own tensor, of the same shape and dtype");
      if (numbers(in) != before) throw Error(KINORA_ERROR_FAILED, what + " changes its input");
    }
  t.now("BARRIER");
  if (world.transferred({.op = KINORA_OP_BARRIER}, "BARRIER").defined())
    throw Error(KINORA_ERROR_FAILED, "finish() of BARRIER returns a tensor; it has none");
  return "";
}

constexpr Check kChecks[] = {{"alone", "collective",
                              "every operation returns its own tensor in a world of one rank", false, nullptr,
                              check_alone}};

}  // namespace
}  // namespace collective_checks_of

std::span<const Check> collective_checks() { return collective_checks_of::kChecks; }

}  // namespace kinora
