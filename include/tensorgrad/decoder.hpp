// Writing on: a language model reads what there is and is asked what follows, token after token.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tensorgrad/compile.hpp"

namespace tensorgrad {

struct DecoderOptions {
  std::int64_t batch = 1;             ///< sequences that go on side by side
  std::optional<Device> device = {};  ///< Device::best() unless said
  ParamRefs params = {};              ///< Parameters to share, of the same device.
  /// Lengths of the pieces in which long stretches are read in parallel, each as often as it fits,
  /// the longest first; what is left over is read token by token. One program each, compiled when
  /// it is first needed.
  std::vector<std::int64_t> pieces = {256, 16};
};

/// Reads tokens and says what could follow. The cost of a token is the same wherever it stands: the
/// past is state on the device, of constant size.
class Decoder {
  using MakeRequest = std::function<ProgramRequest(const InputDecls&)>;

 public:
  /// A model is anything with `Tensor decode(const Tensor& ids) const`, as StateSpaceLM has it.
  template <class Model>
  explicit Decoder(const Model& model, DecoderOptions options = {})
      : Decoder(MakeRequest([model](const InputDecls& inputs) {
                  return detail::make_request(
                      model, [](const Model& m, const Inputs& in) { return m.decode(in["ids"]); },
                      inputs);
                }),
                std::move(options)) {}

  // A copy would share the states: two texts would become one.
  Decoder(Decoder&&) = default;
  Decoder& operator=(Decoder&&) = default;

  /// Of the model, if they are not shared; see Forward::upload_params.
  void upload_params(const ParamValues& values, UploadOptions options = {}) {
    step().upload_params(values, options);
  }
  UploadReport upload_params(const std::string& path, const FileUploadOptions& options = {}) {
    return step().upload_params(path, options);
  }

  /// Reads [batch, n] tokens, a row for each sequence, behind all that was read since the last
  /// reset. Gives the logits of what follows, [batch, vocabulary].
  std::vector<float> read(std::span<const std::int32_t> tokens);
  /// The same for a single token of a single sequence.
  std::vector<float> read(std::int32_t token) { return read(std::span(&token, 1)); }

  /// Forgets all that was read.
  void reset();

  /// What the model knows of all that was read: to come back to it later, or to read on from it
  /// twice.
  StateValues state();
  void set_state(const StateValues& state);

  std::int64_t vocabulary() const { return vocabulary_; }
  const Device& device() const { return programs_.at(1)->device(); }
  /// The program that reads one token: what a token costs.
  const CompiledIR& ir() const { return programs_.at(1)->ir(); }

 private:
  Decoder(MakeRequest make, DecoderOptions options);

  Runner& step() { return *programs_.at(1); }
  std::shared_ptr<Runner> compile(std::int64_t length, const ParamRefs& params) const;
  Runner& program(std::int64_t length);
  std::vector<float> read_piece(std::span<const std::int32_t> tokens, std::int64_t row_length,
                                std::int64_t from, std::int64_t length);
  void check(std::span<const std::int32_t> tokens) const;

  MakeRequest make_;
  DecoderOptions options_;
  std::map<std::int64_t, std::shared_ptr<Runner>> programs_;  // by the length of what they read
  Runner* current_ = nullptr;  // whose states hold the past; none at the beginning
  std::int64_t vocabulary_ = 0;
};

/// How a token is chosen by its logit.
struct Sampling {
  double temperature = 0;  ///< 0: the likeliest; else drawn from softmax(logits/temperature)
  std::int64_t top_k = 0;  ///< > 0: from the so many likeliest only
};

/// The index of the token chosen. Equal logits: the first is taken for the likelier.
std::int32_t choose_token(std::span<const float> logits, const Sampling& sampling, Rng& rng);

}  // namespace tensorgrad
