// Contains the defects that sanitizers must find: `defects NAME`.
#include <climits>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace {

int shared = 0;

int made(const std::string& name) {
  if (name == "address") {
    const std::vector<char> eight(8);
    volatile size_t past = eight.size();
    return eight.data()[past];
  }
  if (name == "undefined") {
    volatile int most = INT_MAX;
    return most + 1;
  }
  if (name == "float-cast") {
    volatile double huge = 1e300;
    return static_cast<int>(huge);
  }
  std::thread one([] { ++shared; }), other([] { ++shared; });
  one.join();
  other.join();
  return shared;
}

}  // namespace

int main(int count, char** words) {
  if (count == 2) std::printf("%d\n", made(words[1]));
}
