// The kinora_host that plugins see. One in a process, because a library is opened once and keeps the pointer.
#pragma once
#include <functional>
#include <string_view>

#include "core/base/status.hpp"
#include "kinora/abi/host.h"

namespace kinora::core {

// Offers kinora.options/1 and kinora.samples/1 from the start; others register.
const kinora_host& core_host();

// [any-thread] Offers a constant table from now on, for ever; `id` as "kinora.tensors/1". The first
// registration stays.
void register_interface(std::string_view id, uint32_t minor, const void* table);

// What brings libtorch into the process and registers kinora.tensors/1. Called when a plugin asks for that
// interface or before one of the pinned tier is opened; at most once, its answer is kept.
void set_torch_loader(std::function<Status()> load);
Status ensure_torch();

// A status of the ABI with the message that came with it, which is then forgotten. `what` begins the message
// if there is none.
Status from_abi(int32_t status, std::string_view what);
// The same after a call that returned null (create, the entry).
Failure take_error(std::string_view what);
// What create() of a component gave, or its error as an exception that begins with the component's id.
void* made(void* instance, std::string_view id);
// What any other call into a component returned: its error as an exception that begins with the component's id. KINORA_STOP is
// one, since only calls of a context may return it.
void called(int32_t status, std::string_view id);

// Lets this library or program use the SDK's C++ wrappers (kinora::Sample, kinora::Reader). The SDK's pointer
// to the host is hidden, one a shared object, so this must stay inline: call it once in each.
inline void adopt_host() { g_host = &core_host(); }

}  // namespace kinora::core
