#include "core/plugin/host.hpp"

#include <cstdint>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/abi/options.h"

namespace kinora::core {
namespace {

const void* ask(const char* id, uint32_t minor) { return core_host().get_interface(&core_host(), id, minor); }

TEST(Host, OffersAnInterfaceUpToItsMinor) {
  static const int table = 0;
  EXPECT_EQ(ask("kinora.test-only/1", 0), nullptr);
  register_interface("kinora.test-only/1", 2, &table);
  EXPECT_EQ(ask("kinora.test-only/1", 0), &table);
  EXPECT_EQ(ask("kinora.test-only/1", 2), &table);
  EXPECT_EQ(ask("kinora.test-only/1", 3), nullptr);
  EXPECT_EQ(ask("kinora.test-only/2", 0), nullptr);
  EXPECT_EQ(from_abi(KINORA_ERROR_UNSUPPORTED, "call").failure().message,
            "this Kinora does not offer kinora.test-only/2 in minor version 0; a newer one may");
  EXPECT_EQ(ask(nullptr, 0), nullptr);
  EXPECT_NE(ask(KINORA_INTERFACE_OPTIONS, 0), nullptr);
}

TEST(Host, SaysWhichDraftItHas) {
  static const int table = 0;
  register_interface("kinora.test-draft/1-draft.2", 0, &table);
  EXPECT_EQ(ask("kinora.test-draft/1-draft.2", 0), &table);
  for (const std::string id : {"kinora.test-draft/1-draft.1", "kinora.test-draft/1"}) {
    EXPECT_EQ(ask(id.c_str(), 0), nullptr);
    EXPECT_EQ(from_abi(KINORA_ERROR_UNSUPPORTED, "call").failure().message,
              "this Kinora has kinora.test-draft/1-draft.2, not " + id +
                  "; build the plugin again with this Kinora's SDK");
  }
}

// A component asked for what the host does not have, did without it, and later fails with the same code.
TEST(Host, AnErrorThatAComponentHandledIsNotTheReasonOfALaterOne) {
  static int instance = 0;
  const auto handle = [] { return ask("acme.nice-to-have/1", 0) == nullptr; };
  const auto later = [] { return from_abi(KINORA_ERROR_UNSUPPORTED, "call").failure().message; };
  const std::string nothing =
      "call: failed with status " + std::to_string(KINORA_ERROR_UNSUPPORTED) + " and no message";
  const auto create = [&]() -> void* { return handle() ? &instance : nullptr; };
  EXPECT_EQ(made(create, "stage/mine"), &instance);
  EXPECT_EQ(later(), nothing);
  called(handle() ? KINORA_OK : KINORA_ERROR_FAILED, "stage/mine");
  EXPECT_EQ(later(), nothing);
  EXPECT_TRUE(from_abi(handle() ? KINORA_OK : KINORA_ERROR_FAILED, "process"));
  EXPECT_EQ(later(), nothing);
  handle();
  EXPECT_THAT(later(), testing::HasSubstr("does not offer acme.nice-to-have/1"))
      << "it passed the host's error on";
}

TEST(Host, WhatCreateThrowsIsItsError) {
  const auto said = [](const std::function<void*()>& create) -> std::string {
    try {
      made(create, "stage/mine");
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  kinora::set_error(KINORA_ERROR_IO, "an older one");
  EXPECT_EQ(said([]() -> void* { return nullptr; }), "stage/mine: create: failed without a message");
  EXPECT_EQ(said([]() -> void* { throw std::runtime_error("no lens"); }), "stage/mine: no lens");
  EXPECT_EQ(said([]() -> void* { throw 42; }), "stage/mine: an exception of unknown type");
}

TEST(Host, EachThreadHasItsOwnError) {
  kinora::set_error(KINORA_ERROR_IO, "mine");
  std::thread([] { kinora::set_error(KINORA_ERROR_DATA, "the other's"); }).join();
  const auto status = from_abi(KINORA_ERROR_IO, "call");
  EXPECT_EQ(status.failure().message, "mine");
  // The message is reported once; a status without its own message must not repeat it.
  EXPECT_EQ(from_abi(KINORA_ERROR_IO, "call").failure().message,
            "call: failed with status -5 and no message");
}

TEST(Host, AFailedCallNamesTheComponentOnce) {
  const auto said = [](int32_t status, const char* message) -> std::string {
    if (message) kinora::set_error(status, message);
    try {
      called(status, "loss/mine");
    } catch (const Error& e) {
      return e.code() == status || status == KINORA_SIGNAL_STOP ? e.what() : "another code";
    }
    return "no error";
  };
  EXPECT_EQ(said(KINORA_OK, nullptr), "no error");
  EXPECT_EQ(said(KINORA_ERROR_DATA, "a tensor is missing"), "loss/mine: a tensor is missing");
  EXPECT_EQ(said(KINORA_ERROR_DATA, "loss/mine: no"), "loss/mine: no");
  EXPECT_EQ(said(KINORA_ERROR_IO, nullptr), "loss/mine: failed with status -5 and no message");
  EXPECT_EQ(said(KINORA_SIGNAL_STOP, nullptr),
            "loss/mine returned KINORA_SIGNAL_STOP, which only calls of a context may");
  EXPECT_THROW(check(KINORA_SIGNAL_STOP), Error) << "not Stop, which is caught only in a context";
}

// abi/base.h, rule 11: of a newer Kinora, or of no one.
TEST(Host, AnUnknownStatusIsAFailureThatNamesIt) {
  for (const int32_t status : {KINORA_ERROR_REFUSED - 1, INT32_MIN, 3, 200}) {
    const std::string says = "returned " + std::to_string(status) + ", which is no status of this Kinora";
    const auto plain = from_abi(status, "process");
    EXPECT_EQ(plain.failure().code, KINORA_ERROR_FAILED);
    EXPECT_EQ(plain.failure().message, "process: " + says);
    kinora::set_error(status, "the lens is foggy");
    EXPECT_EQ(from_abi(status, "process").failure().message, "process: " + says + ": the lens is foggy");
    try {
      called(status, "loss/mine");
      ADD_FAILURE() << status << " is taken for success";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_FAILED);
      EXPECT_EQ(e.what(), "loss/mine: " + says);
    }
  }
}

TEST(Host, AnErrorIsNeverASuccess) {
  for (const int32_t code : {KINORA_OK, KINORA_SIGNAL_STOP, KINORA_SIGNAL_END, 200, KINORA_ERROR_REFUSED - 1})
    EXPECT_EQ(guard([&] { throw Error(code, "no lens"); }), KINORA_ERROR_FAILED) << code;
  EXPECT_EQ(from_abi(KINORA_ERROR_FAILED, "call").failure().message, "no lens");
  for (int32_t code = KINORA_ERROR_REFUSED; code < KINORA_OK; ++code)
    EXPECT_EQ(guard([&] { throw Error(code, "no lens"); }), code);
}

TEST(Host, LibtorchIsLoadedOnceAndFromInsideItsOwnLoading) {
  int loads = 0;
  set_torch_loader([&]() -> Status {
    ++loads;
    EXPECT_EQ(ask("kinora.tensors/9", 0), nullptr);
    return {};
  });
  EXPECT_EQ(ask("kinora.tensors/9", 0), nullptr);
  EXPECT_TRUE(ensure_torch());
  EXPECT_EQ(loads, 1);
  set_torch_loader([]() -> Status { throw std::runtime_error("no space"); });
  EXPECT_EQ(ensure_torch().failure().message, "libtorch: no space");
  EXPECT_EQ(ask("kinora.tensors/9", 0), nullptr);
  EXPECT_EQ(from_abi(KINORA_ERROR_FAILED, "call").failure().message, "libtorch: no space");
  set_torch_loader(nullptr);
}

}  // namespace
}  // namespace kinora::core
