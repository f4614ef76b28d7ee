// Answers of a cache are checked before use, and errors name the component.
#include "core/torch/context/cache_instance.hpp"

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
    [](void*, uint32_t branch, int64_t* out) { return *out = answers.count + branch, answers(); },
    [](void*, int64_t* out) { return *out = answers.count, answers(); },
    [](void*, uint32_t branch) { return answers.calls.push_back(branch), answers(); },
    [](void*, uint32_t branch, int64_t tokens) {
      return answers.calls.insert(answers.calls.end(), {branch, tokens}), answers();
    },
    [](void*, int64_t first, int64_t count) {
      return answers.calls.insert(answers.calls.end(), {first, count}), answers();
    }};

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
    EXPECT_EQ(opened->tokens(), 3);
    EXPECT_EQ(opened->tokens(2), 5);
    EXPECT_EQ(opened->bytes(), 3);
    opened->reset(1);
    opened->trim(4, 5);
    opened->pin(6, 7);
    opened->reset();
  }
  EXPECT_THAT(answers.calls, testing::ElementsAre(9, 1, 4, 5, 6, 7, int64_t{KINORA_BRANCH_ALL}, -1));
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
  EXPECT_EQ(test::refusal([&] { opened->tokens(); }), "cache/wrong: tokens returned -2");
  EXPECT_EQ(test::refusal([&] { opened->bytes(); }), "cache/wrong: bytes returned -2");
  answers.fails = true;
  const std::function<void()> calls[] = {[&] { opened->tokens(); }, [&] { opened->bytes(); },
                                         [&] { opened->reset(); }, [&] { opened->trim(0, 1); },
                                         [&] { opened->pin(0, 1); }};
  for (const auto& call : calls) EXPECT_EQ(test::refusal(call), "cache/wrong: no idea");
}

}  // namespace
}  // namespace kinora::core
