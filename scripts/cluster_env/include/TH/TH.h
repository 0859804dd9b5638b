/* BlueFog includes this header of torch's, which is gone; it uses no more of it than the names. */
#pragma once
struct THByteTensor;
struct THCharTensor;
struct THShortTensor;
struct THIntTensor;
struct THLongTensor;
struct THHalfTensor;
struct THFloatTensor;
struct THDoubleTensor;
