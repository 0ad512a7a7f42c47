package hybridbackfill.storage;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.S3AUtils;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Request;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Response;
import software.amazon.awssdk.services.s3.model.S3Object;

/**
 * Delta logs in S3, each version of which one writer only can create.
 *
 * <p>Delta 4.4.0 knows of the writers of its own JVM only, and overwrites the commits of others.
 * Set by {@code spark.delta.logStore.s3a.impl}. Delta has a log store of its own that does this
 * since issue 7367 (not released with 4.4.0); once a release has it, this class can go.
 */
public class ConditionalLogStore extends HadoopFileSystemLogStore {
  /** With the URL of a log: the number of its versions, if no other one will ever follow. */
  private static final String COMPLETE = "hybridbackfill.storage.complete:";

  public ConditionalLogStore(Configuration conf) {
    super(conf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf)
      throws IOException {
    FileSystem fs = path.getFileSystem(conf);
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      bytes.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
    }
    if (overwrite) {
      try (FSDataOutputStream out = fs.create(path, true)) {
        out.write(bytes.toByteArray());
      }
      return;
    }
    try {
      ConditionalPut.put(fs, path, bytes.toByteArray());
    } catch (org.apache.hadoop.fs.FileAlreadyExistsException e) {
      throw new FileAlreadyExistsException(path.toString());
    }
  }

  /**
   * Lists the files of a log from a name on, whatever the number of files before.
   *
   * <p>S3A lists a whole folder, a thousand files with each request: 30 days of commits every ten
   * seconds would be 500 requests for each commit.
   */
  @Override
  public Iterator<FileStatus> listFrom(Path path, Configuration conf) throws IOException {
    FileSystem fs = path.getFileSystem(conf);
    Path folder = path.getParent();
    if (!(fs instanceof S3AFileSystem) || !folder.getName().equals("_delta_log")) {
      // VACUUM lists the folders of a table in this way.
      return super.listFrom(path, conf);
    }
    S3AFileSystem s3a = (S3AFileSystem) fs;
    // A log that is read to its end would be listed at each trigger of the query.
    String versions = conf.get(COMPLETE + folder);
    if (versions != null && version(path) >= Long.parseLong(versions)) {
      return Collections.emptyIterator();
    }
    String first = s3a.pathToKey(path);
    ListObjectsV2Request request =
        ListObjectsV2Request.builder()
            .bucket(s3a.getBucket())
            .prefix(s3a.pathToKey(folder) + "/")
            .delimiter("/")
            .build();
    // Without the last character: the file itself is among those after it.
    String before = first.substring(0, first.length() - 1);
    ListObjectsV2Request next = request.toBuilder().startAfter(before).build();
    List<FileStatus> found = new ArrayList<>();
    while (next != null) {
      ListObjectsV2Response page = list(s3a, folder, next);
      for (S3Object each : page.contents()) {
        if (each.key().compareTo(first) >= 0) {
          found.add(described(s3a, each));
        }
      }
      String token = page.nextContinuationToken();
      next = token == null ? null : request.toBuilder().continuationToken(token).build();
    }
    if (found.isEmpty()) {
      ListObjectsV2Response any = list(s3a, folder, request.toBuilder().maxKeys(1).build());
      if (any.contents().isEmpty() && any.commonPrefixes().isEmpty()) {
        throw new FileNotFoundException("No such file or directory: " + folder);
      }
    }
    return found.iterator();
  }

  /** One page of a listing, with the retries that S3A has for its own. */
  private static ListObjectsV2Response list(
      S3AFileSystem s3a, Path folder, ListObjectsV2Request request) throws IOException {
    S3Client client = s3a.getS3AInternals().getAmazonS3Client("list a Delta log");
    try {
      return s3a.createStoreContext()
          .getInvoker()
          .retryUntranslated("list " + folder, true, () -> client.listObjectsV2(request));
    } catch (SdkException e) {
      throw S3AUtils.translateException("list", folder, e);
    }
  }

  private static long version(Path path) {
    String name = path.getName();
    return Long.parseLong(name.substring(0, name.indexOf('.')));
  }

  private static FileStatus described(S3AFileSystem s3a, S3Object object) {
    Path full = s3a.makeQualified(new Path("/" + object.key()));
    long modified = object.lastModified().toEpochMilli();
    LogCachingFileSystem.listed(full, object.eTag(), object.size());
    return new FileStatus(
        object.size(), false, 1, s3a.getDefaultBlockSize(full), modified, full);
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return false;
  }
}
