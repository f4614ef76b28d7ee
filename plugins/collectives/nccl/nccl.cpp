// collective/nccl: transfers of GPU tensors, by c10d's NCCL process group.
#include <algorithm>
#include <cstdlib>
#include <unistd.h>

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "kinora/plugin.hpp"
#include "plugins/collectives/c10d/rendezvous.hpp"
#include "plugins/collectives/nccl/nccl_group.hpp"

namespace kinora {

namespace {

c10::intrusive_ptr<c10d::Backend> make_backend(const Peers& p) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = p.timeout;
  const c10::cuda::CUDAGuard here(p.device);
  auto made = c10::make_intrusive<c10d::ProcessGroupNCCL>(p.store, static_cast<int>(p.rank),
                                                          static_cast<int>(p.size()), options);
  made->setBoundDeviceId(p.device);
  return made;
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

class Nccl final : public Collective<at::Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("nccl").help("transfers of GPU tensors by NCCL; small CPU tensors travel through the GPU");
  }
  explicit Nccl(const Options&) {}

  void join(const kinora_world& world) override {
    if (store_) throw Error(KINORA_INVALID, "nccl: this instance has already joined a world");
    if (world.size < 1 || world.rank < 0 || world.rank >= world.size || world.timeout_ms <= 0)
      throw Error(KINORA_INVALID, "nccl: rank must be in [0, size), and the time limit above 0");
    const auto gpus = c10::cuda::device_count();
    if (gpus == 0) throw Error(KINORA_UNSUPPORTED, "nccl: no GPU found; use collective = \"gloo\"");
    rank_ = world.rank;
    size_ = world.size;
    timeout_ = std::chrono::milliseconds(world.timeout_ms);
    store_ = meet("nccl", parse_rendezvous("nccl", world.rendezvous ? world.rendezvous : ""), world);
    roll_ = std::make_shared<RollCall>(store_->clone(), rank_, timeout_);
    const int64_t local = place_on_host();
    if (gpus > 1 && local >= gpus)
      throw Error(KINORA_INVALID, "nccl: " + host_name() + " has " + std::to_string(gpus) +
                                      " GPUs and more ranks; start one rank per GPU");
    device_ = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(local % gpus));
    // After a timeout the watchdog aborts communicators, and leaves it to the process to report it.
    setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", 0);
  }

  std::unique_ptr<CollectiveGroup<at::Tensor>> group(const std::string& name,
                                                     const std::vector<int64_t>& members) override {
    Peers peers;
    const auto me = std::find(members.begin(), members.end(), rank_);
    const auto outside = [&](int64_t r) { return r < 0 || r >= size_; };
    if (!store_ || me == members.end() || std::any_of(members.begin(), members.end(), outside))
      throw Error(KINORA_INVALID, "nccl: group '" + name +
                                      "' must consist of ranks of a joined world, including rank " +
                                      std::to_string(rank_));
    peers.collective = "nccl";
    peers.name = name;
    peers.members = members;
    peers.rank = me - members.begin();
    peers.timeout = timeout_;
    peers.roll = roll_;
    peers.device = device_;
    std::string prefix = "group/" + name;  // two groups of one name have different members
    for (const int64_t m : members) prefix += "," + std::to_string(m);
    peers.store = c10::make_intrusive<c10d::PrefixStore>(prefix, store_);
    return std::make_unique<NcclGroup>(std::move(peers), make_backend);
  }

 private:
  // The number of lower ranks on this host. Under srun each rank may see only its own GPU, as the first.
  int64_t place_on_host() const {
    const auto key = [](int64_t r) { return "host/" + std::to_string(r); };
    const std::string mine = host_name();
    store_->set(key(rank_), std::vector<uint8_t>(mine.begin(), mine.end()));
    int64_t place = 0;
    for (int64_t r = 0; r < rank_; ++r) {
      const auto bytes = store_->get(key(r));
      place += std::string(bytes.begin(), bytes.end()) == mine;
    }
    return place;
  }

  int64_t rank_ = 0, size_ = 1;
  std::chrono::milliseconds timeout_{};
  at::Device device_ = at::kCPU;
  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<RollCall> roll_;
};
KINORA_COMPONENT(Nccl)
KINORA_PLUGIN(Nccl)

}  // namespace kinora
