// Answers of a cache are checked before use, and errors name the component.
#include "core/torch/network/cache_instance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using testing::HasSubstr;

struct AnyLink : Link<at::Tensor> {
  using Link::Link;
};

// A cache that answers what a test sets, and notes its calls.
struct Answers {
  const kinora_link* link = nullptr;
  int64_t count = 3;
  bool fails = false, exists = true;
  std::vector<int64_t> calls{};
  int32_t operator()() const {
    return guard([&] {
      if (fails) throw Error(KINORA_ERROR_DATA, "no idea");
    });
  }
} answers;

const kinora_cache kCacheTable = {
    sizeof(kinora_cache),
    0,
    [](const kinora_host*, const kinora_options*, int64_t tokens) -> void* {
      answers.calls = {tokens};
      if (!answers.exists) set_error(KINORA_ERROR_INVALID, "too many tokens");
      return answers.exists ? &answers : nullptr;
    },
    [](void*) { answers.calls.push_back(-1); },
    [](void*, const kinora_link** out) { return *out = answers.link, answers(); },
    [](void*, uint64_t session, uint32_t branch, int64_t* out) {
      return *out = answers.count + static_cast<int64_t>(10 * session) + branch, answers();
    },
    [](void*, uint64_t session, int64_t* out) {
      return *out = answers.count + static_cast<int64_t>(session), answers();
    },
    [](void*, uint64_t session, uint32_t branch) {
      return answers.calls.insert(answers.calls.end(), {static_cast<int64_t>(session), branch}), answers();
    },
    nullptr,
    [](void*, uint64_t session, int64_t first, int64_t count) {
      return answers.calls.insert(answers.calls.end(), {static_cast<int64_t>(session), first, count}),
             answers();
    },
    nullptr,
    nullptr,
    nullptr,
    nullptr};

class CacheDoor : public testing::Test {
 protected:
  CacheDoor() {
    test::plugins();
    answers = {};
    answers.link = cache.get();
    spec.kind = "cache";
    spec.id = "cache/wrong";
  }
  std::unique_ptr<CacheInstance> open() const {
    return std::make_unique<CacheInstance>(Component{&spec, nullptr, &kCacheTable}, Options(), 9);
  }
  std::string refused() const {
    return test::refusal([&] { open(); });
  }
  ComponentSpec spec;
  AnyLink cache{KINORA_LEVEL_CACHE}, context{KINORA_LEVEL_CONTEXT};
};

TEST_F(CacheDoor, PassesEveryCallOn) {
  {
    const auto opened = open();
    EXPECT_EQ(opened->link(), cache.get());
    EXPECT_EQ(opened->tokens(0), 3);
    EXPECT_EQ(opened->tokens(4, 2), 45);
    EXPECT_EQ(opened->bytes(4), 7);
    opened->pin(5, 6, 7);
    opened->reset(1);
  }
  EXPECT_THAT(answers.calls, testing::ElementsAre(9, 5, 6, 7, 1, int64_t{KINORA_BRANCH_ALL}, -1));
}

TEST_F(CacheDoor, RefusesAnotherLinkThanACaches) {
  answers.link = context.get();
  EXPECT_EQ(refused(), "cache/wrong: its link has level 300; a cache's is 800");
  EXPECT_EQ(answers.calls.back(), -1) << "it is destroyed";
  answers.link = nullptr;
  EXPECT_EQ(refused(), "cache/wrong: link returned no link");
  answers.fails = true;
  EXPECT_EQ(refused(), "cache/wrong: no idea");
  answers.exists = false;
  EXPECT_EQ(refused(), "cache/wrong: too many tokens");
}

TEST_F(CacheDoor, NamesTheComponentInEveryError) {
  const auto opened = open();
  answers.count = -2;
  EXPECT_EQ(test::refusal([&] { opened->tokens(0); }), "cache/wrong: tokens returned -2");
  EXPECT_EQ(test::refusal([&] { opened->bytes(0); }), "cache/wrong: bytes returned -2");
  answers.fails = true;
  const std::function<void()> calls[] = {[&] { opened->tokens(0); }, [&] { opened->bytes(0); },
                                         [&] { opened->reset(0); }, [&] { opened->pin(0, 0, 1); }};
  for (const auto& call : calls) EXPECT_EQ(test::refusal(call), "cache/wrong: no idea");
}

}  // namespace
}  // namespace kinora::core
