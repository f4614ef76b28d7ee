#include "core/workers/life_signs.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <sys/mman.h>

namespace kinora::core {

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

LifeSigns::LifeSigns() : memory_(::memfd_create("kinora-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (!memory_ || ::ftruncate(memory_.get(), sizeof(Page)) != 0)
    throw Error(KINORA_NO_MEMORY, fmt::format("no shared memory for a worker: {}", std::strerror(errno)));
  // A worker that could shrink it would kill this process.
  ::fcntl(memory_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  map();
}

LifeSigns::LifeSigns(Descriptor memory) : memory_(std::move(memory)) { map(); }

LifeSigns::~LifeSigns() { ::munmap(page_, sizeof(Page)); }

void LifeSigns::map() {
  void* at = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (at == MAP_FAILED)
    throw Error(KINORA_NO_MEMORY, fmt::format("a worker's page cannot be mapped: {}", std::strerror(errno)));
  page_ = static_cast<Page*>(at);
}

}  // namespace kinora::core
