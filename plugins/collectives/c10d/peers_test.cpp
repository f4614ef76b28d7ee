// The roll of a world whose store is slow or gone.
#include "plugins/collectives/c10d/peers.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace kinora {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Blocks a note until it is released, two seconds at most.
class SlowStore final : public c10d::HashStore {
 public:
  void set(const std::string& key, const std::vector<uint8_t>& data) override {
    std::unique_lock lock(mutex_);
    is_taking = true;
    changed.wait_for(lock, std::chrono::seconds(2), [&] { return may_end; });
    lock.unlock();
    c10d::HashStore::set(key, data);
  }
  void let_go() {
    const std::scoped_lock lock(mutex_);
    may_end = true;
    changed.notify_all();
  }
  std::atomic<bool> is_taking{false};

 private:
  std::mutex mutex_;
  std::condition_variable changed;
  bool may_end = false;
};

TEST(RollCall, NobodyWaitsForTheStoreThatTakesANote) {
  const auto store = c10::make_intrusive<SlowStore>();
  RollCall roll(store, 3, milliseconds(20000));
  roll.stand({"sum #17", {1}});
  store->c10d::HashStore::set("roll", {1});
  while (!store->is_taking) std::this_thread::sleep_for(milliseconds(1));
  std::atomic<int> woken{0};
  const auto begin = steady_clock::now();
  {
    const RollCall::Wait here(roll, {"recv #1", {2}}, [&] { ++woken; });
    roll.stand({"gather #2", {2}});
    EXPECT_TRUE(roll.called());
  }
  EXPECT_LT(steady_clock::now() - begin, milliseconds(20000));
  EXPECT_EQ(woken, 1) << "who comes after the call does not wait";
  store->let_go();
  const auto note = store->get("roll/3");
  EXPECT_EQ(std::string(note.begin(), note.end()), "1 \nsum #17");
}

TEST(RollCall, AStoreThatIsGoneIsNotLookedForUntilTheWorldsTimeLimit) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const RollCall roll(store, 0, std::chrono::minutes(10));
  EXPECT_LE(store->getTimeout(), milliseconds(2000));
}

}  // namespace
}  // namespace kinora
