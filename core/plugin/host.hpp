// The kinora_host that plugins see. One per process, because a library is opened once and keeps the pointer.
#pragma once
#include <functional>
#include <string_view>

#include "core/base/status.hpp"
#include "kinora/abi/host.h"

namespace kinora::core {

// Offers kinora.options/1 and kinora.samples/1 from the start; others register.
const kinora_host& core_host();

// [any-thread] Offers a constant table from now until the process ends; `id` as "kinora.tensors/1". Later
// registrations of the same id are ignored.
void register_interface(std::string_view id, uint32_t minor, const void* table);

// Loads libtorch and registers kinora.tensors/1. Called when a plugin asks for that
// interface or before a plugin of the pinned tier is opened; at most once, its result is kept.
void set_torch_loader(std::function<Status()> load);
Status ensure_torch();

// The calling thread's last error is the one of the call that returns next: whoever calls a component ends
// the call by one of the functions below, and all of them leave no error behind. An error that a component
// handled is so not taken for the reason of a later one.
void forget_error();
// A status of the ABI with the message that came with it. `what` starts the message if there is none.
Status from_abi(int32_t status, std::string_view what);
// The same after a call that returned null (create, the entry).
Failure take_error(std::string_view what);
// The result of a component's create(), or its error as an exception whose message starts with the
// component's id. An exception of create() is an error too, also that of another C++ library.
void* made(const std::function<void*()>& create, std::string_view id);
// Throws the error of any other call into a component, with a message that starts with the component's id.
// KINORA_SIGNAL_STOP counts as an error, since only calls of a context may return it.
void called(int32_t status, std::string_view id);

// [any-thread] What a program does after each call into a plugin, named by `who`; none: null.
void after_calls(void (*then)(std::string_view who));
void after_call(std::string_view who);

}  // namespace kinora::core
