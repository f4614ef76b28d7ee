// A collective in C++, see abi/collective.h. T is kinora::Tensor (stable tier) or at::Tensor (pinned).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kinora/abi/collective.h"
#include "kinora/options.hpp"
#include "kinora/tensor.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// One transfer, see kinora_transfer in abi/collective.h.
template <class T>
struct Transfer {
  uint32_t op = KINORA_OP_ALL_REDUCE;
  int64_t dim = 0, dim2 = 0;
  int64_t peer = 0;  // rank within the group
  int64_t tag = 0;
  T in = {};
};

// A started transfer. It keeps its input's storage.
template <class T>
class CollectiveWork {
 public:
  virtual ~CollectiveWork() = default;
  // Waits; call it once. Undefined for SEND and BARRIER. Error(KINORA_ERROR_TIMEOUT) if a peer does not
  // answer in time.
  virtual T finish() = 0;
};

template <class T>
class CollectiveGroup {
 public:
  virtual ~CollectiveGroup() = default;
  virtual std::unique_ptr<CollectiveWork<T>> start(const Transfer<T>& transfer) = 0;
};

// A subclass C has: struct Options; static void describe(Describe<Options>&); explicit C(const Options&).
template <class T>
class Collective {
 public:
  static constexpr const char* kind = "collective";
  static constexpr const char* interface_id = KINORA_INTERFACE_COLLECTIVE;
  virtual ~Collective() = default;
  // Blocks until all ranks have joined. Call it once.
  virtual void join(const kinora_world& world) = 0;
  // members: world ranks, including this process.
  virtual std::unique_ptr<CollectiveGroup<T>> group(const std::string& name,
                                                    const std::vector<int64_t>& members) = 0;

  template <class C>
  static const void* api() {
    static const kinora_collective table{
        sizeof(kinora_collective),
        0,
        [](const kinora_host*, const kinora_options* o) -> void* {
          Collective* made = nullptr;
          guard([&] { made = new C(described<C>().read(o)); });
          return made;
        },
        [](void* self) { delete of(self); },
        [](void* self, const kinora_world* w) { return guard([&] { of(self)->join(*w); }); },
        [](void* self, const char* name, const int64_t* members, uint64_t n, void** group) {
          return guard([&] { *group = of(self)->group(name, {members, members + n}).release(); });
        },
        [](void* group, const kinora_transfer* t, void** work) {
          return guard([&] {
            refuse_unknown(KINORA_HAS(t, needs) ? t->needs | t->reserved : 0, "a transfer");
            const Transfer<T> transfer{t->op, t->dim, t->dim2, t->peer, t->tag, borrow<T>(t->in)};
            *work = static_cast<CollectiveGroup<T>*>(group)->start(transfer).release();
          });
        },
        [](void* work, kinora_tensor* out) {
          return guard([&] {
            const std::unique_ptr<CollectiveWork<T>> ends(static_cast<CollectiveWork<T>*>(work));
            *out = give(ends->finish());
          });
        },
        [](void* group) { delete static_cast<CollectiveGroup<T>*>(group); }};
    return &table;
  }

 private:
  static Collective* of(void* self) { return static_cast<Collective*>(self); }
};

}  // namespace kinora

KINORA_SDK_END
