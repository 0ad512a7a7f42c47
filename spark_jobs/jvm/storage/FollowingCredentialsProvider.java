package hybridbackfill.storage;

import software.amazon.awssdk.auth.credentials.AwsCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider;
import software.amazon.awssdk.profiles.ProfileFileSupplier;

/**
 * The SDK's default chain, which also sees that a credentials file was rewritten.
 *
 * <p>By itself the chain reads profile files once, so a JVM would keep a login that has expired.
 */
public final class FollowingCredentialsProvider implements AwsCredentialsProvider {
  private final AwsCredentialsProvider chain =
      DefaultCredentialsProvider.builder()
          .profileFile(ProfileFileSupplier.defaultSupplier())
          .build();

  @Override
  public AwsCredentials resolveCredentials() {
    return chain.resolveCredentials();
  }
}
