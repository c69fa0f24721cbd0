#include "tensorgrad/decoder.hpp"

#include <algorithm>

namespace tensorgrad {

Decoder::Decoder(MakeRequest make, DecoderOptions options)
    : make_(std::move(make)), options_(std::move(options)) {
  if (options_.batch < 1) {
    throw Error("Decoder: the batch must be 1 or more, not " + std::to_string(options_.batch) +
                ".");
  }
  for (const std::int64_t length : options_.pieces) {
    if (length < 1)
      throw Error("Decoder: a piece must be 1 token or more, not " + std::to_string(length) + ".");
  }
  std::sort(options_.pieces.rbegin(), options_.pieces.rend());
  programs_[1] = compile(1, options_.params);
  vocabulary_ = step().output_shape("")[1];
}

std::shared_ptr<Runner> Decoder::compile(std::int64_t length, const ParamRefs& params) const {
  ProgramRequest request = make_({{"ids", {{options_.batch, length}, i32}}});
  request.device = options_.device;
  request.shared = params;
  return std::make_shared<Runner>(std::move(request));
}

Runner& Decoder::program(std::int64_t length) {
  auto& program = programs_[length];
  if (!program) program = compile(length, step().params());
  return *program;
}

void Decoder::check(std::span<const std::int32_t> tokens) const {
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count == 0 || count % options_.batch != 0) {
    throw Error("Decoder::read: " + std::to_string(count) + " tokens are given for " +
                std::to_string(options_.batch) +
                " sequences; each must get one or more, and all as many.");
  }
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocabulary_) {
      throw Error("Decoder::read: there is no token " + std::to_string(token) +
                  "; the vocabulary has " + std::to_string(vocabulary_) + ", counted from 0.");
    }
  }
}

std::vector<float> Decoder::read(std::span<const std::int32_t> tokens) {
  check(tokens);
  const std::int64_t length = static_cast<std::int64_t>(tokens.size()) / options_.batch;
  std::vector<float> logits;
  std::int64_t at = 0;
  for (const std::int64_t piece : options_.pieces) {
    for (; length - at >= piece; at += piece) logits = read_piece(tokens, length, at, piece);
  }
  for (; at < length; ++at) logits = read_piece(tokens, length, at, 1);
  return logits;
}

std::vector<float> Decoder::read_piece(std::span<const std::int32_t> tokens,
                                       std::int64_t row_length, std::int64_t from,
                                       std::int64_t length) {
  Runner& next = program(length);
  if (!current_) {
    next.reset_states();
  } else if (current_ != &next) {
    next.upload_states(current_->download_states());
  }
  current_ = &next;
  std::vector<std::int32_t> ids;
  for (std::int64_t row = 0; row < options_.batch; ++row) {
    const auto first = tokens.begin() + row * row_length + from;
    ids.insert(ids.end(), first, first + length);
  }
  return next.run({{"ids", ids}}, {}).output;
}

void Decoder::reset() { current_ = nullptr; }

StateValues Decoder::state() {
  if (!current_) step().reset_states();
  return (current_ ? *current_ : step()).download_states();
}

void Decoder::set_state(const StateValues& state) {
  step().upload_states(state);
  current_ = &step();
}

}  // namespace tensorgrad
