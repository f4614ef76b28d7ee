// `kinora convert` again and again in one process: reads its arguments, a JSON list a line, and answers a
// line {"code", "said"}, the exit code and what the command printed (tests/e2e/adapters.py). A process of the
// program spends most of its time on loading libtorch.
#include <cstdio>
#include <iostream>
#include <string>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <nlohmann/json.hpp>

#include "apps/kinora/command.hpp"
#include "core/runtime/runtime.hpp"
#include "kinora/error.hpp"

namespace kinora {
namespace {

// As the program's main().
int converted(core::Runtime& runtime, const Arguments& arguments) {
  try {
    return convert_command(runtime, arguments);
  } catch (const boost::program_options::error& e) {
    return complain(kUsage, std::string(e.what()) + "; see --help");
  } catch (const Error& e) {
    return complain(e.code() == KINORA_ERROR_INVALID ? kUsage : kFailed, e.what());
  } catch (const std::exception& e) {
    return complain(kFailed, e.what());
  }
}

// A file that stands for stdout and stderr.
class Printed {
 public:
  Printed() : file_(std::tmpfile()), fd_(fileno(file_)) { dup2(fd_, 1), dup2(fd_, 2); }
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;
  ~Printed() { std::fclose(file_); }
  // The text that was printed since the last call.
  std::string take() {
    std::cout.flush(), std::fflush(nullptr);
    std::string out(static_cast<size_t>(lseek(fd_, 0, SEEK_END)), '\0');
    out.resize(static_cast<size_t>(pread(fd_, out.data(), out.size(), 0)));
    if (ftruncate(fd_, 0) != 0) std::abort();
    lseek(fd_, 0, SEEK_SET);
    return out;
  }

 private:
  std::FILE* file_;
  int fd_;
};

}  // namespace
}  // namespace kinora

int main() {
  using namespace kinora;
  std::FILE* answers = fdopen(dup(1), "w");
  Printed printed;
  const auto runtime = core::or_throw(core::Runtime::start({}));
  runtime->torch_loader(core::open_torch_library);
  for (std::string line; std::getline(std::cin, line);) {
    const int code = converted(*runtime, nlohmann::json::parse(line).get<Arguments>());
    std::fputs((nlohmann::json{{"code", code}, {"said", printed.take()}}.dump() + "\n").c_str(), answers);
    std::fflush(answers);
  }
  std::_Exit(0);  // without the destructors of libtorch's tables
}
