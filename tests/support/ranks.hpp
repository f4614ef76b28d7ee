// Runs a test's body in several processes: copies of the test program in its initial state, one per rank,
// which run this test only.
//
//   TEST(Gloo, Sums) {
//     for (int n : {2, 4})
//       on_ranks(n, [](const Rank& me) { EXPECT_EQ(...); });
//   }
//
// The parent waits, and fails with the output of every failed rank. The ranks share only a folder.
#pragma once
#include <functional>
#include <string>

namespace kinora::test {

struct Rank {
  int rank = 0, size = 1;
  std::string folder;  // empty at the start, shared, removed at the end
  int port = 0;        // on loopback, reserved for these ranks
  std::string file() const { return "file://" + folder + "/rendezvous"; }
  // Waits until every rank has reached this point, without any transfer that is under test. Throws after 60
  // s.
  void meet(const std::string& point) const;
  // Sets this process's variables as a launcher does: its rank, and the rendezvous. Worlds that begin
  // afterwards meet there in the order in which they begin.
  void launched() const;
  // Makes this process a single one, whatever it was before.
  static void alone();
  std::string tcp() const { return "tcp://127.0.0.1:" + std::to_string(port); }
};

// Kills ranks that still run after `seconds` and counts them as failed.
void on_ranks(int size, const std::function<void(const Rank&)>& body, int seconds = 60);

}  // namespace kinora::test
