// A test's body on several processes: copies of the test program as it began, a rank each, which run this one
// test only.
//
//   TEST(Gloo, Sums) {
//     for (int n : {2, 4})
//       on_ranks(n, [](const Rank& me) { EXPECT_EQ(...); });
//   }
//
// The parent waits, and fails with the output of every rank that failed. Nothing is shared but a folder.
#pragma once
#include <functional>
#include <string>

namespace kinora::test {

struct Rank {
  int rank = 0, size = 1;
  std::string folder;  // empty at the start, shared, removed afterwards
  int port = 0;        // on loopback, held for these ranks
  std::string file() const { return "file://" + folder + "/rendezvous"; }
  // Waits until every rank has come to this point; not by any transfer that is under test. Throws after 60 s.
  void meet(const std::string& point) const;
  // This process as a launcher starts it: the variables of its rank, and where the ranks meet. Each call a
  // new place to meet, of all ranks that come to it in the same order.
  void launched() const;
  // This process by itself, whatever it was before.
  static void alone();
  std::string tcp() const { return "tcp://127.0.0.1:" + std::to_string(port); }
};

// Ranks that still run after `seconds` are killed and count as failed.
void on_ranks(int size, const std::function<void(const Rank&)>& body, int seconds = 60);

}  // namespace kinora::test
